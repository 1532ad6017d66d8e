// The layer map: which blocks of the model each chunk of each pipeline stage owns. A model in a pipeline of P stages
// with v virtual stages is cut into P v chunks in order of the forward pass; chunk k is the (k / P)-th of stage k % P
// (Narayanan et al. 2021, interleaved schedule). Every layer stands in exactly one chunk.
#pragma once
#include <string>
#include <vector>

#include "src/config/run.h"

namespace ogrom {

// `layers` in `chunks` parts as even as possible; the first layers % chunks parts hold one more (the last part, which
// has the head's product too, never does unless all do).
std::vector<i64> even_split(i64 layers, i64 chunks);

// The chunks of one stage in chunk order, by parallel.stage_layers or, where that is empty, by even_split. The
// embedding stands on stage 0, chunk 0; the final norm and the head on the last chunk of the last stage. Error(usage)
// when the list does not cover the model.
std::vector<StageSpan> stage_spans(const ModelConfig& model, const ParallelConfig& parallel, i64 stage);

// "stage 0: layers 0-3, 8-11; stage 1: layers 4-7, 12"
std::string layer_map_text(const ModelConfig& model, const ParallelConfig& parallel);

}  // namespace ogrom
