// Learning rate as a pure function of the step (B13): never stored, so a resume cannot advance it twice.
//   warm-up   lr (step + 1) / warmup_steps            for step < warmup_steps: the peak is optimizer step warmup_steps
//   cosine    min + (lr - min) (1 + cos(pi u)) / 2    u = (step - warmup) / (decay_steps - warmup) clipped to [0, 1]
//   linear    lr + (min - lr) u                       the same u
//   constant  lr
//   wsd       lr until step total - decay_steps, then linear to min_lr at step total
// Steps count from 0; the first update uses learning_rate(0). Sources: Loshchilov & Hutter 2017 (cosine), Hu et al.
// 2024 (warm-up, stable, decay).
#pragma once
#include "src/config/run.h"

namespace ogrom {

double learning_rate(const OptimizerConfig& optimizer, i64 total_steps, i64 step);

}  // namespace ogrom
