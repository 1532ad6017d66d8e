// Learning rate as a pure function of the step (B13): never stored, so a resume cannot advance it twice.
// n = step + 1 counts updates from 1, as logs do; the peak is update w = max(warmup_steps, 1), once.
//   warm-up   lr n / warmup_steps                     for n < w
//   cosine    min + (lr - min) (1 + cos(pi u)) / 2    u = (n - w) / (decay_steps - w) clipped to [0, 1]: update
//                                                     decay_steps is the first at min_lr
//   linear    lr + (min - lr) u                       the same u
//   constant  lr
//   wsd       lr until update total - decay_steps, then linear to min_lr at update total
// Steps count from 0; the first update uses learning_rate(0). Sources: Loshchilov & Hutter 2017 (cosine), Hu et al.
// 2024 (warm-up, stable, decay).
#pragma once
#include "src/config/run.h"

namespace ogrom {

double learning_rate(const OptimizerConfig& optimizer, i64 total_steps, i64 step);

}  // namespace ogrom
