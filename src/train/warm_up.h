// Everything that a GPU loads on first use (kernels, plans of the libraries, working memory) is touched once before the
// first step, so that the ledger can name what it takes.
#pragma once
#include "src/train/engine.h"

namespace ogrom {

// One pass forward and backward of a batch of zeros through every chunk of this stage, without the pipeline's messages.
// Gradients are left to the next step, which clears them; weights and moments are not touched. Collective over the
// axes but the pipeline's.
template <class T>
void warm_up(Engine<T>& engine);

}  // namespace ogrom
