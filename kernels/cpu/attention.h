// Inside of ops/attention on the CPU, for tests: a chosen instruction set, and the index of a dropout element.
#pragma once
#include "kernels/cpu/attention_job.h"
#include "kernels/ops/attention.h"

namespace ogrom::cpu {

// The processor must have the set (best_isa() is the widest it has).
template <class T>
void attention_forward_on(Isa isa, const ops::AttentionForward<T>& op);
template <class T>
void attention_backward_on(Isa isa, const ops::AttentionBackward<T>& op);

// Global dropout element of (global sample, local head, local query, local key), as ops/attention.h states it.
u64 attention_dropout_element(const ops::AttentionShape& shape, i64 sample, i64 head, i64 query, i64 key);

}  // namespace ogrom::cpu
