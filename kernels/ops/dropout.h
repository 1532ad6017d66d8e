// Dropout by counter: whether an element is kept is a function of (seed, site, step, global element index) only, so the
// mask is the same under every layout, in recomputation and after resume; it is never stored.
//   keep(e) = uniform(seed, site, step, e) >= p ;  y = keep ? x / (1 - p) : 0
// uniform: 32-bit word (e mod 4) of Philox4x32-10 with key and counter as documented in kernels/common/rng.h.
// Source: Srivastava et al. 2014; Salmon et al. 2011 (Philox).
#pragma once
#include "kernels/common/extents.h"
#include "kernels/common/host_device.h"

namespace ogrom::ops {

struct DropoutSpec {
    double p = 0;  // probability of dropping, 0 <= p < 1; 0 = no dropout, no random number drawn
    u64 seed = 0;
    u32 site = 0;  // which dropout of the model: layer * 4 + {0 embedding, 1 attention, 2 after attention, 3 after MLP}
    u32 step = 0;  // optimizer step
    const u32* step_at = nullptr;  // where the kernel runs; overrides `step` when set
};

OGROM_HOST_DEVICE inline u32 dropout_step(const DropoutSpec& spec) {
    return spec.step_at != nullptr ? *spec.step_at : spec.step;
}

}  // namespace ogrom::ops
