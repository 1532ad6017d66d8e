// Causal multi-head attention, blocked with an online softmax: memory linear in T (Dao et al. 2022, 2023).
//   s_ij = scale * q_i k_j, allowed where (query_offset + i) >= (key_offset + j) and segment_i == segment_j
//   p_ij = exp(s_ij - lse_i), lse_i = log sum_j exp(s_ij) ; o_i = sum_j dropout(p_ij) v_j
//   backward (p recomputed from lse): dv_j = sum_i p'_ij do_i ; delta_i = do_i . o_i ;
//             ds_ij = p_ij (mask_ij do_i . v_j - delta_i) ; dq_i = scale sum_j ds_ij k_j ; dk_j = scale sum_i ds_ij q_i
// Head h of the queries uses key head h / (heads / kv_heads). A query row with no allowed key gives o = 0, lse = -inf.
// Rows are [batch * T] with a row stride, head h at column h * head_dim: the packed q|k|v rows of one product can be
// used in place. Global dropout element of (b, h, i, j): ((sample[b] * heads_total + head0 + h) * queries_total +
// query_offset + i) * keys_total + key_offset + j. flops (causal pairs P = sum over i of allowed j): 4 P D forward, 10
// P D backward (recomputation of s counted), per head. Saved: o, lse. Backward is repeatable (each output tile owned by
// one thread, summed in ascending order).
#pragma once
#include <cstdint>

#include "kernels/common/dtype.h"
#include "kernels/common/extents.h"
#include "kernels/common/stream.h"
#include "kernels/ops/dropout.h"

namespace ogrom::ops {

struct AttentionShape {
    i64 batch;
    i64 queries, keys;                                                       // Tq, Tk; may differ
    i64 heads, kv_heads, head_dim;                                           // heads % kv_heads == 0, head_dim <= 256
    i64 query_offset = 0;                                                    // global position of query 0
    i64 key_offset = 0;                                                      // global position of key 0
    i64 query_stride = 0, key_stride = 0, value_stride = 0, out_stride = 0;  // elements between rows
    i64 query_batch_stride = 0, key_batch_stride = 0, value_batch_stride = 0, out_batch_stride = 0;  // between samples
    const std::int32_t* query_segments = nullptr;  // [batch, Tq] or null = one segment
    const std::int32_t* key_segments = nullptr;    // [batch, Tk] or null
    double scale = 1;
    const i64* sample = nullptr;     // [batch], for dropout
    i64 heads_total = 0, head0 = 0;  // this rank's heads within the model's (dropout element)
    DropoutSpec dropout;
    i64 queries_total = 0,
        keys_total = 0;  // global Tq and Tk of the dropout element; 0 = queries, keys (as heads_total)
};

template <class T>
struct AttentionForward {
    T* out;               // [batch, Tq, heads, D]
    StatisticOf<T>* lse;  // [batch, heads, Tq]; null in inference
    const T* q;
    const T* k;
    const T* v;
    AttentionShape shape;
    StatisticOf<T>* workspace;  // attention_workspace(...) elements, per call; not used on a device
};
template <class T>
void attention_forward(Stream stream, const AttentionForward<T>& op);

template <class T>
struct AttentionBackward {
    T* d_q;          // overwritten; strides as q
    T* d_k;          // overwritten; strides as k (sum over the query heads of a group)
    T* d_v;          // overwritten; strides as v
    const T* d_out;  // strides as out
    const T* out;
    const StatisticOf<T>* lse;
    const T* q;
    const T* k;
    const T* v;
    AttentionShape shape;
    StatisticOf<T>* workspace;  // as in the forward pass
};
template <class T>
void attention_backward(Stream stream, const AttentionBackward<T>& op);

// Elements of StatisticOf<T> that forward and backward need at most, for `threads` host threads (grows with threads and
// T, not T*T); `threads` is omp_get_max_threads() of the calling thread.
i64 attention_workspace(const AttentionShape& shape, int threads);

// The same for a backend: 0 on a device, whose kernels take kernels/cuda/scratch.h (cuda::attention_scratch(shape)).
i64 attention_workspace(const AttentionShape& shape, Backend backend, int threads);

// Which kernels this processor runs: "avx512" | "avx2" (recorded in provenance: the bits depend on it).
const char* attention_backend();

// bf16 and fp16 on a GPU, process-wide; set it before the first call. automatic: cuDNN where the library is found and
// takes the shape (no dropout, no segments, Tq = Tk from one offset, head_dim % 8 == 0 <= 128, rows of 16-byte packs,
// each array below 2^31 elements), else our own kernels. cudnn: the same, but a call fails (usage) where the library
// was not found. own: never cuDNN. cuDNN's backward pass adds in no fixed order: with AttentionOrder::fixed our own
// runs there instead.
enum class AttentionChoice { automatic, cudnn, own };
enum class AttentionOrder { any, fixed };
struct AttentionSettings {
    AttentionChoice choice = AttentionChoice::automatic;
    AttentionOrder backward = AttentionOrder::any;
};
void set_attention_settings(AttentionSettings settings);
AttentionSettings attention_settings();

}  // namespace ogrom::ops
