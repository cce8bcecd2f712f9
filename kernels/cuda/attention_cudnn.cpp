// cuDNN's scaled dot-product attention on packed rows. q, k, v and their gradients are strided views of one array, so
// nothing is transposed or copied. Its statistics are the logarithm of the sum of exponentials, like libtrain's. Each
// long document of a row is a sequence, with ragged offsets. For these, cuDNN writes dk and dv to separate arrays,
// because its sums over grouped heads use the row layout of dk and dv; they are then copied into place. Only this file
// includes cudnn-frontend, whose headers take most of a minute to compile.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include "kernels/cuda/attention_cudnn.h"

#include <cuda_runtime.h>
#include <cudnn_frontend.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "device/cuda.h"
#include "device/cuda_error.h"
#include "kernels/attention_options.h"
#include "kernels/cuda/attention_documents.h"
#include "kernels/cuda/attention_own.h"
#include "libtrain/error.h"
#include "memory/workspace.h"

namespace lt::kernels::cudnn {
namespace {

namespace fe = cudnn_frontend;
using TensorPointer = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Uid : std::int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kLse,
  kDout,
  kDq,
  kDk,
  kDv,
  // With documents: lengths, and offsets of the rows of qkv, of heads, of groups and of statistics.
  kQueries,
  kKeys,
  kPackedAt,
  kHeadsAt,
  kGroupsAt,
  kStatisticsAt
};
using Pointers = std::unordered_map<std::int64_t, void*>;

// A graph for one direction and shape, ready to run, or the reason why cuDNN refuses.
struct Plan {
  std::unique_ptr<fe::graph::Graph> graph;
  Size workspace_bytes = 0;
  std::string refusal;
};

// One per device. `mutex` is held during a call: a handle serves one thread at a time.
struct Engine {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
  std::string refusal;
  using Key = std::tuple<bool, bool, bool, DType, Size, Size, Size, Size, Size, Size, float>;
  std::map<Key, Plan> plans;
};

// Engines live as long as the process; at its end the driver frees their resources.
Engine& engine_of(int device) {
  static std::mutex mutex;
  static auto& engines = *new std::map<int, std::unique_ptr<Engine>>;
  const std::lock_guard lock(mutex);
  auto& engine = engines[device];
  if (!engine) {
    engine = std::make_unique<Engine>();
    const cudnnStatus_t status = cudnnCreate(&engine->handle);
    if (status != CUDNN_STATUS_SUCCESS) engine->refusal = std::string("cudnnCreate: ") + cudnnGetErrorString(status);
  }
  return *engine;
}

// `heads` heads of [B, T, heads, D] with rows `row` elements apart, in cuDNN's order [B, heads, T, D]. With offsets, B
// documents of up to T tokens.
struct View {
  std::vector<std::int64_t> dim, stride;
  TensorPointer offsets;  // null: sequences of T tokens, one after another
};
View view(const AttentionShape& s, Size heads, Size row, const TensorPointer& offsets) {
  return {{s.B, heads, s.T, s.D}, {s.T * row, s.D, row, 1}, offsets};
}
View statistics(const AttentionShape& s, const TensorPointer& offsets) {
  return {{s.B, s.H, s.T, 1}, {s.H * s.T, offsets ? 1 : s.T, offsets ? s.H : 1, 1}, offsets};
}

TensorPointer numbers(fe::graph::Graph& graph, Uid uid, Size count, fe::DataType_t type) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(uid)
                          .set_dim({count, 1, 1, 1})
                          .set_stride({1, 1, 1, 1})
                          .set_data_type(type));
}

TensorPointer input(fe::graph::Graph& graph, Uid uid, const View& v, fe::DataType_t type) {
  auto tensor = fe::graph::Tensor_attributes().set_uid(uid).set_dim(v.dim).set_stride(v.stride).set_data_type(type);
  if (v.offsets) tensor.set_ragged_offset(v.offsets);
  return graph.tensor(tensor);
}
void output(const TensorPointer& tensor, Uid uid, const View& v, fe::DataType_t type) {
  tensor->set_output(true).set_uid(uid).set_dim(v.dim).set_stride(v.stride).set_data_type(type);
  if (v.offsets) tensor->set_ragged_offset(v.offsets);
}

void describe(fe::graph::Graph& graph, DType dtype, const AttentionShape& given, float scale, bool backward,
              bool deterministic, bool documents) {
  constexpr auto kF32 = fe::DataType_t::FLOAT;
  const auto type = dtype == DType::f16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
  const Size tokens = given.B * given.T;
  AttentionShape s = given;
  if (documents) s.B = most_long_documents(given);
  const auto offsets = [&](Uid uid) {
    return documents ? numbers(graph, uid, s.B + 1, fe::DataType_t::INT64) : nullptr;
  };
  const TensorPointer packed_at = offsets(kPackedAt), heads_at = offsets(kHeadsAt),
                      statistics_at = offsets(kStatisticsAt);
  const View q = view(s, s.H, s.row(), packed_at), kv = view(s, s.G, s.row(), packed_at),
             out = view(s, s.H, s.H * s.D, heads_at), lse_view = statistics(s, statistics_at);
  graph.set_io_data_type(type).set_intermediate_data_type(kF32).set_compute_data_type(kF32);
  const TensorPointer q_in = input(graph, kQ, q, type), k_in = input(graph, kK, kv, type),
                      v_in = input(graph, kV, kv, type);
  const auto causal = [&](auto options) {
    options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
    if (s.window_hides()) options.set_diagonal_band_left_bound(s.window);
    if (documents) {
      options.set_padding_mask(true)
          .set_seq_len_q(numbers(graph, kQueries, s.B, fe::DataType_t::INT32))
          .set_seq_len_kv(numbers(graph, kKeys, s.B, fe::DataType_t::INT32));
    }
    return options.set_diagonal_band_right_bound(0).set_attn_scale(scale);
  };
  if (!backward) {
    auto options = causal(fe::graph::SDPA_attributes().set_name("attention"));
    options.set_generate_stats(true);
    const auto [y, lse] = graph.sdpa(q_in, k_in, v_in, options);
    output(y, kOut, out, type);
    output(lse, kLse, lse_view, kF32);
    return;
  }
  auto options = causal(fe::graph::SDPA_backward_attributes().set_name("attention_backward"));
  options.set_deterministic_algorithm(deterministic);
  if (documents) options.set_max_total_seq_len_q(tokens).set_max_total_seq_len_kv(tokens);
  const View dkv = documents ? view(s, s.G, s.G * s.D, offsets(kGroupsAt)) : kv;
  const auto [dq, dk, dv] =
      graph.sdpa_backward(q_in, k_in, v_in, input(graph, kOut, out, type), input(graph, kDout, out, type),
                          input(graph, kLse, lse_view, kF32), options);
  output(dq, kDq, q, type);
  output(dk, kDk, dkv, type);
  output(dv, kDv, dkv, type);
}

Plan build(cudnnHandle_t handle, DType dtype, const AttentionShape& s, float scale, bool backward, bool deterministic,
           bool documents) {
  Plan plan;
  try {
    auto graph = std::make_unique<fe::graph::Graph>();
    describe(*graph, dtype, s, scale, backward, deterministic, documents);
    auto status = graph->build(handle, {fe::HeurMode_t::A});
    if (status.is_good()) {
      std::int64_t bytes = 0;
      auto sized = graph->get_workspace_size(bytes);
      if (sized.is_bad()) plan.refusal = "the workspace's size: " + sized.get_message();
      plan.workspace_bytes = bytes;
      plan.graph = std::move(graph);
    } else {
      plan.refusal = status.get_message();
    }
  } catch (const std::exception& e) {
    plan.refusal = e.what();
  }
  // An empty refusal would mean that it ran.
  if (!plan.graph && plan.refusal.empty()) plan.refusal = "no reason given";
  return plan;
}

// The caller holds the engine's mutex.
const Plan& plan_of(Engine& engine, DType dtype, const AttentionShape& s, double scale, bool backward,
                    bool deterministic, bool documents = false) {
  const auto factor = static_cast<float>(scale);
  const Engine::Key key{backward, deterministic, documents, dtype, s.B, s.T, s.H, s.G, s.D, s.window, factor};
  const auto found = engine.plans.find(key);
  if (found != engine.plans.end()) return found->second;
  Plan plan;
  plan.refusal = engine.refusal;
  if (plan.refusal.empty()) plan = build(engine.handle, dtype, s, factor, backward, deterministic, documents);
  return engine.plans.emplace(key, std::move(plan)).first->second;
}

void run(Engine& engine, const Plan& plan, CudaStream stream, Pointers& pointers, void* workspace) {
  const cudnnStatus_t set = cudnnSetStream(engine.handle, static_cast<cudaStream_t>(stream.handle));
  if (set != CUDNN_STATUS_SUCCESS) {
    throw InternalError("attention", std::string("cudnnSetStream: ") + cudnnGetErrorString(set));
  }
  auto status = plan.graph->execute(engine.handle, pointers, workspace);
  if (status.is_bad()) throw InternalError("attention", "cuDNN: " + status.get_message());
}

// The address `elements` two-byte elements after `array`. Not const, because cuDNN takes its inputs as void* too.
void* at(const void* array, Size elements) {
  return const_cast<std::byte*>(static_cast<const std::byte*>(array)) + 2 * elements;
}

const std::string& nothing() {
  static const std::string text;
  return text;
}

void add_documents(Pointers& pointers, const DocumentBatch& batch) {
  pointers.insert({{kQueries, batch.lengths_N},
                   {kKeys, batch.lengths_N},
                   {kPackedAt, batch.packed_N1},
                   {kHeadsAt, batch.heads_N1},
                   {kStatisticsAt, batch.statistics_N1}});
}

// Copies M rows of `columns` two-byte elements.
void copy_rows(CudaStream stream, void* to, Size to_row, const void* from, Size columns, Size M) {
  const auto width = static_cast<std::size_t>(2 * columns);
  LT_CUDA(cudaMemcpy2DAsync(to, static_cast<std::size_t>(2 * to_row), from, width, width, static_cast<std::size_t>(M),
                            cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream.handle)));
}

// The same shape with `count` sequences.
AttentionShape part(AttentionShape s, Size count) {
  s.B = count;
  return s;
}

}  // namespace

const std::string& attention_forward(CudaStream stream, const AttentionForward& call) {
  static const std::string too_large = "the forward asks for more scratch memory than there is";
  Engine& engine = engine_of(stream.device);
  const std::lock_guard lock(engine.mutex);
  const AttentionShape& s = call.shape;
  const bool documents = call.starts_BT != nullptr;
  const Plan& plan = plan_of(engine, call.dtype, s, call.scale, false, false, documents);
  if (!plan.refusal.empty()) return plan.refusal;
  const Size batch_bytes = documents ? document_batch_bytes(s) : 0;
  if (batch_bytes + plan.workspace_bytes > memory::kScratchBytes) return too_large;
  std::byte* const scratch = memory::scratch(stream, batch_bytes + plan.workspace_bytes);
  Pointers pointers{{kQ, at(call.qkv, 0)},
                    {kK, at(call.qkv, s.H * s.D)},
                    {kV, at(call.qkv, (s.H + s.G) * s.D)},
                    {kOut, call.out_BTHD},
                    {kLse, call.lse_BHT}};
  if (documents) add_documents(pointers, find_long_documents(stream, scratch, call.starts_BT, s));
  run(engine, plan, stream, pointers, scratch + batch_bytes);
  if (documents) own::attention_forward(stream, call, own::Documents::short_ones);
  return nothing();
}

namespace {

// The caller holds the engine's mutex.
const std::string& documents_backward(Engine& engine, CudaStream stream, const AttentionBackward& call) {
  static const std::string not_deterministic = "expected rows of one document in a deterministic run",
                           too_large = "the backward with documents asks for more workspace than planned";
  if (call.deterministic) return not_deterministic;
  const AttentionShape& s = call.shape;
  const Plan& plan = plan_of(engine, call.dtype, s, call.scale, true, false, true);
  if (!plan.refusal.empty()) return plan.refusal;
  const DocumentWorkspace parts = document_workspace(s);
  if (plan.workspace_bytes > parts.cudnn_bytes) return too_large;
  std::byte* const workspace = static_cast<std::byte*>(call.workspace);
  const DocumentBatch batch = find_long_documents(stream, workspace, call.starts_BT, s);
  const Size heads = s.H * s.D, groups = s.G * s.D;
  Pointers pointers{{kQ, at(call.qkv, 0)},
                    {kK, at(call.qkv, heads)},
                    {kV, at(call.qkv, heads + groups)},
                    {kOut, at(call.out_BTHD, 0)},
                    {kDout, at(call.dout_BTHD, 0)},
                    {kLse, at(call.lse_BHT, 0)},
                    {kDq, call.dqkv},
                    {kDk, workspace + parts.dk},
                    {kDv, workspace + parts.dv},
                    {kGroupsAt, batch.groups_N1}};
  add_documents(pointers, batch);
  run(engine, plan, stream, pointers, workspace + parts.cudnn);
  copy_rows(stream, at(call.dqkv, heads), s.row(), workspace + parts.dk, groups, s.B * s.T);
  copy_rows(stream, at(call.dqkv, heads + groups), s.row(), workspace + parts.dv, groups, s.B * s.T);
  AttentionBackward others = call;  // overwrites the rows of short documents, which the copies left undefined
  others.workspace = workspace + parts.delta;
  own::attention_backward(stream, others, own::Documents::short_ones);
  return nothing();
}

}  // namespace

const std::string& attention_backward(CudaStream stream, const AttentionBackward& call) {
  Engine& engine = engine_of(stream.device);
  const std::lock_guard lock(engine.mutex);
  if (call.starts_BT != nullptr) return documents_backward(engine, stream, call);
  const AttentionShape& s = call.shape;
  const auto plan_for = [&](const AttentionShape& shape) -> const Plan& {
    return plan_of(engine, call.dtype, shape, call.scale, true, call.deterministic);
  };
  const Size workspace = attention_backward_workspace(DeviceType::cuda, call.dtype, s, call.deterministic);
  Size step = cudnn_backward_sequences(s, call.deterministic);
  // If a device asks for more than planned (compute capability 8.0: two dq in f32), fewer sequences at a time may fit.
  while (step > 1 && plan_for(part(s, step)).workspace_bytes > workspace) step = (step + 1) / 2;
  for (Size b = 0; b < s.B; b += step) {
    const Plan& plan = plan_for(part(s, std::min(step, s.B - b)));
    // If the last, smaller part is refused, the own kernels write all of dqkv again.
    if (!plan.refusal.empty()) return plan.refusal;
    if (plan.workspace_bytes > workspace) {
      throw InternalError("attention", "cuDNN asks for " + std::to_string(plan.workspace_bytes) +
                                           " bytes of workspace for the backward, planned were " +
                                           std::to_string(workspace));
    }
    const Size rows = b * s.T, packed = rows * s.row(), heads = rows * s.H * s.D;
    const Size k_at = packed + s.H * s.D, v_at = k_at + s.G * s.D;
    Pointers pointers{{kQ, at(call.qkv, packed)},         {kK, at(call.qkv, k_at)},
                      {kV, at(call.qkv, v_at)},           {kOut, at(call.out_BTHD, heads)},
                      {kDout, at(call.dout_BTHD, heads)}, {kLse, at(call.lse_BHT, 2 * rows * s.H)},  // lse is f32
                      {kDq, at(call.dqkv, packed)},       {kDk, at(call.dqkv, k_at)},
                      {kDv, at(call.dqkv, v_at)}};
    run(engine, plan, stream, pointers, call.workspace);
  }
  return nothing();
}

Size backward_workspace(CudaStream stream, DType dtype, const AttentionShape& s, double scale, bool deterministic,
                        bool documents) {
  Engine& engine = engine_of(stream.device);
  const std::lock_guard lock(engine.mutex);
  if (documents) {
    const Plan& plan = plan_of(engine, dtype, s, scale, true, false, true);
    return plan.refusal.empty() ? plan.workspace_bytes + document_workspace(s).cudnn : -1;
  }
  const AttentionShape first = part(s, cudnn_backward_sequences(s, deterministic));
  const Plan& plan = plan_of(engine, dtype, first, scale, true, deterministic);
  return plan.refusal.empty() ? plan.workspace_bytes : -1;
}

}  // namespace lt::kernels::cudnn
