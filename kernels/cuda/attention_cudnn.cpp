// Attention of cuDNN (its fused graphs, through the cudnn-frontend headers): a graph is built once for each shape and
// kept. The library is opened at run time: see attention_cudnn_library.cpp.
#include <cstring>
#include <cudnn_frontend.h>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/scratch.h"

namespace ogrom::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

enum class Pass : i64 { forward, forward_without_lse, backward };
enum Slot : i64 { q_slot = 1, k_slot, v_slot, out_slot, lse_slot, d_out_slot, d_q_slot, d_k_slot, d_v_slot };

void need(cudnnStatus_t status, const char* call) {
    require(status == CUDNN_STATUS_SUCCESS, ExitCode::peer, std::string(call) + ": " + cudnnGetErrorString(status));
}

// One for each device and thread: a handle has one stream.
cudnnHandle_t handle_of(Stream stream) {
    thread_local std::map<int, cudnnHandle_t> handles;
    int device = 0;
    require(cudaGetDevice(&device) == cudaSuccess, ExitCode::peer, "cudaGetDevice");
    cudnnHandle_t& handle = handles[device];
    if (handle == nullptr) {
        need(cudnnCreate(&handle), "cudnnCreate");
    }
    need(cudnnSetStream(handle, static_cast<cudaStream_t>(stream.native)), "cudnnSetStream");
    return handle;
}

// Everything that a graph depends on.
std::vector<i64> key_of(const ops::AttentionShape& s, Dtype type, Pass pass) {
    int device = 0;
    require(cudaGetDevice(&device) == cudaSuccess, ExitCode::peer, "cudaGetDevice");
    i64 scale = 0;
    std::memcpy(&scale, &s.scale, sizeof scale);
    return {device,
            static_cast<i64>(type),
            static_cast<i64>(pass),
            s.batch,
            s.queries,
            s.heads,
            s.kv_heads,
            s.head_dim,
            s.query_stride,
            s.key_stride,
            s.value_stride,
            s.out_stride,
            s.query_batch_stride,
            s.key_batch_stride,
            s.value_batch_stride,
            s.out_batch_stride,
            scale};
}

class GraphBuilder {
public:
    GraphBuilder(const ops::AttentionShape& shape, Dtype type, fe::graph::Graph& graph) : s_(shape), graph_(graph) {
        graph_.set_io_data_type(type == Dtype::fp16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
            .set_intermediate_data_type(fe::DataType_t::FLOAT)
            .set_compute_data_type(fe::DataType_t::FLOAT);
    }

    void forward(bool with_lse) {
        auto options = fe::graph::SDPA_attributes();
        options.set_name("attention_forward").set_attn_scale(static_cast<float>(s_.scale)).set_generate_stats(with_lse);
        options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
        auto [out, lse] = graph_.sdpa(queries("q", q_slot), keys("k", k_slot), values("v", v_slot), options);
        describe(out, out_slot, s_.heads, s_.out_stride, s_.out_batch_stride);
        if (with_lse) {
            lse->set_output(true).set_data_type(fe::DataType_t::FLOAT).set_uid(lse_slot);
        }
    }

    void backward() {
        auto options = fe::graph::SDPA_backward_attributes();
        options.set_name("attention_backward").set_attn_scale(static_cast<float>(s_.scale));
        options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT).set_diagonal_band_right_bound(0);
        const Tensor q = queries("q", q_slot), k = keys("k", k_slot), v = values("v", v_slot);
        const Tensor out = input("out", out_slot, s_.heads, s_.out_stride, s_.out_batch_stride);
        const Tensor d_out = input("d_out", d_out_slot, s_.heads, s_.out_stride, s_.out_batch_stride);
        const Tensor lse = graph_.tensor(fe::graph::Tensor_attributes()
                                             .set_name("lse")
                                             .set_uid(lse_slot)
                                             .set_dim({s_.batch, s_.heads, s_.queries, 1})
                                             .set_stride({s_.heads * s_.queries, s_.queries, 1, 1})
                                             .set_data_type(fe::DataType_t::FLOAT));
        auto [d_q, d_k, d_v] = graph_.sdpa_backward(q, k, v, out, d_out, lse, options);
        describe(d_q, d_q_slot, s_.heads, s_.query_stride, s_.query_batch_stride);
        describe(d_k, d_k_slot, s_.kv_heads, s_.key_stride, s_.key_batch_stride);
        describe(d_v, d_v_slot, s_.kv_heads, s_.value_stride, s_.value_batch_stride);
    }

private:
    // [batch, heads, T, head_dim]; a single sample may have no stride between samples.
    std::vector<i64> strides(i64 row, i64 batch) const {
        return {batch > 0 ? batch : row * s_.queries, s_.head_dim, row, 1};
    }
    std::vector<i64> dims(i64 heads) const { return {s_.batch, heads, s_.queries, s_.head_dim}; }
    Tensor input(const char* name, Slot slot, i64 heads, i64 row, i64 batch) {
        return graph_.tensor(fe::graph::Tensor_attributes()
                                 .set_name(name)
                                 .set_uid(slot)
                                 .set_dim(dims(heads))
                                 .set_stride(strides(row, batch)));
    }
    Tensor queries(const char* name, Slot slot) {
        return input(name, slot, s_.heads, s_.query_stride, s_.query_batch_stride);
    }
    Tensor keys(const char* name, Slot slot) {
        return input(name, slot, s_.kv_heads, s_.key_stride, s_.key_batch_stride);
    }
    Tensor values(const char* name, Slot slot) {
        return input(name, slot, s_.kv_heads, s_.value_stride, s_.value_batch_stride);
    }
    void describe(const Tensor& tensor, Slot slot, i64 heads, i64 row, i64 batch) {
        tensor->set_output(true).set_dim(dims(heads)).set_stride(strides(row, batch)).set_uid(slot);
    }

    const ops::AttentionShape& s_;
    fe::graph::Graph& graph_;
};

// Null where cuDNN has no plan.
std::shared_ptr<fe::graph::Graph> built(const ops::AttentionShape& shape, Dtype type, Pass pass, cudnnHandle_t handle) {
    auto graph = std::make_shared<fe::graph::Graph>();
    GraphBuilder builder(shape, type, *graph);
    if (pass == Pass::backward) {
        builder.backward();
    } else {
        builder.forward(pass == Pass::forward);
    }
    const auto status = graph->build(handle, {fe::HeurMode_t::A});
    return status.is_good() ? graph : nullptr;
}

fe::graph::Graph* graph_for(const ops::AttentionShape& shape, Dtype type, Pass pass, cudnnHandle_t handle) {
    static std::mutex building;
    static std::map<std::vector<i64>, std::shared_ptr<fe::graph::Graph>> graphs;
    const std::lock_guard<std::mutex> lock(building);
    const auto key = key_of(shape, type, pass);
    auto found = graphs.find(key);
    if (found == graphs.end()) {
        found = graphs.emplace(key, built(shape, type, pass, handle)).first;
    }
    return found->second.get();
}

using Pointers = std::unordered_map<i64, void*>;

bool run(Stream stream, const ops::AttentionShape& shape, Dtype type, Pass pass, Pointers pointers) {
    if (!cudnn_library().found) {
        return false;
    }
    const cudnnHandle_t handle = handle_of(stream);
    const fe::graph::Graph* graph = graph_for(shape, type, pass, handle);
    if (graph == nullptr) {
        return false;
    }
    i64 bytes = 0;
    auto status = graph->get_workspace_size(bytes);
    require(status.is_good(), ExitCode::peer, "attention of cuDNN, working memory: " + status.get_message());
    status = graph->execute(handle, pointers, scratch(stream, bytes));
    require(status.is_good(), ExitCode::peer, "attention of cuDNN: " + status.get_message());
    return true;
}

template <class T>
void* writable(const T* pointer) {
    return const_cast<T*>(pointer);
}

}  // namespace

template <class T>
bool attention_forward_cudnn(Stream stream, const ops::AttentionForward<T>& op) {
    Pointers pointers = {
        {q_slot, writable(op.q)}, {k_slot, writable(op.k)}, {v_slot, writable(op.v)}, {out_slot, op.out}};
    if (op.lse != nullptr) {
        pointers[lse_slot] = op.lse;
    }
    return run(stream, op.shape, dtype_of<T>(), op.lse != nullptr ? Pass::forward : Pass::forward_without_lse,
               std::move(pointers));
}

template <class T>
bool attention_backward_cudnn(Stream stream, const ops::AttentionBackward<T>& op) {
    return run(stream, op.shape, dtype_of<T>(), Pass::backward,
               {{q_slot, writable(op.q)},
                {k_slot, writable(op.k)},
                {v_slot, writable(op.v)},
                {out_slot, writable(op.out)},
                {lse_slot, const_cast<float*>(op.lse)},
                {d_out_slot, writable(op.d_out)},
                {d_q_slot, op.d_q},
                {d_k_slot, op.d_k},
                {d_v_slot, op.d_v}});
}

template bool attention_forward_cudnn(Stream, const ops::AttentionForward<Bf16>&);
template bool attention_forward_cudnn(Stream, const ops::AttentionForward<Fp16>&);
template bool attention_backward_cudnn(Stream, const ops::AttentionBackward<Bf16>&);
template bool attention_backward_cudnn(Stream, const ops::AttentionBackward<Fp16>&);

}  // namespace ogrom::cuda
