// Describes matmuls to cuBLASLt and finds their algorithms. cuBLASLt is column-major, so it sees a row-major matrix as
// its transpose. The row-major D = op(A) op(B) is therefore computed as D^T = op(B)^T op(A)^T, with swapped operands.
#include "kernels/cuda/cublas_matmuls.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "device/cuda_error.h"
#include "kernels/cuda/carried_algorithms.h"
#include "kernels/cuda/matmul_search.h"
#include "kernels/cuda/matmul_tiles.h"
#include "libtrain/device/context.h"
#include "memory/workspace.h"

namespace lt::kernels {
namespace {

constexpr int kProposals = 8;           // cuBLASLt names no more
constexpr Size kLarge = Size{1} << 33;  // multiplications of a matmul whose algorithm matters
constexpr std::uint32_t kMostAlignment = 128;

cudaDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDA_R_64F;
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    case DType::e4m3: return CUDA_R_8F_E4M3;
    default: break;
  }
  throw InternalError("kernels", "gemm: expected f32, f64, bf16, f16 or e4m3, found " + std::string(dtype_name(dtype)));
}

cublasComputeType_t compute_type(const Problem& q) {
  if (q.dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  return q.flags[2] ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}
cudaDataType scale_type(const Problem& q) { return q.dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F; }
AlgorithmTypes types_of(const Problem& q) {
  return {compute_type(q), scale_type(q), data_type(q.dtype), data_type(q.out)};
}

cublasLtEpilogue_t to_cublas(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none: return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::gelu: return CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::bias_gelu: return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_gradient: return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::sum_a: return CUBLASLT_EPILOGUE_BGRADB;  // because the operands are swapped
  }
  throw InternalError("kernels", "gemm: no such epilogue");
}

Epilogue epilogue_of(const Gemm& g, bool bias) {
  if (g.gelu_gradient_of_MN != nullptr) return Epilogue::gelu_gradient;
  if (g.sum_a_M != nullptr) return Epilogue::sum_a;
  if (g.gelu_input_MN != nullptr) return bias ? Epilogue::bias_gelu : Epilogue::gelu;
  return bias ? Epilogue::bias : Epilogue::none;
}

std::size_t workspace_bytes(bool has_workspace) {
  return has_workspace ? static_cast<std::size_t>(memory::kMatmulWorkspaceBytes) : 0;
}

void give_notice_of_proposals() {
  Context::current().give_notice(
      "some matmuls take the algorithm that cuBLASLt proposes first, because the table of algorithms has none for them "
      "that it accepts; `ltrain bench tune` makes a table");
}

// True if the epilogue is fused when the table has no entry. Sums of A are mostly faster in a pass of their own.
bool fuses(Epilogue epilogue) { return epilogue != Epilogue::sum_a; }

// True if calls on the stream can be timed.
bool may_time(CudaStream stream) {
  const Stream compute = Stream::compute({DeviceType::cuda, stream.device});
  return stream.handle == compute.cuda().handle && !device::cuda::is_capturing(stream);
}

MatrixLayout layout(DType dtype, Size rows, Size columns, Size ld, Size batch, Size stride) {
  cublasLtMatrixLayout_t made = nullptr;
  LT_CUBLAS(cublasLtMatrixLayoutCreate(&made, data_type(dtype), static_cast<std::uint64_t>(rows),
                                       static_cast<std::uint64_t>(columns), ld));
  MatrixLayout result(made);
  const auto count = static_cast<std::int32_t>(batch);
  LT_CUBLAS(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
  LT_CUBLAS(
      cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  return result;
}

}  // namespace

std::optional<TableMatmul> Problem::in_table() const {
  const auto [M, N, K, lda, ldb, ldd, ld_c, batch, stride_a, stride_b, stride_d, stride_c] = sizes;
  const auto [transpose_a, transpose_b, tf32, one_scale] = flags;
  const bool has_gaps = lda != (transpose_a ? M : K) || ldb != (transpose_b ? K : N) || ldd != N || ld_c != N;
  const bool is_aligned = std::ranges::all_of(alignment, [](std::uint32_t a) { return a == kMostAlignment; });
  if (pinned || has_gaps || batch > 1 || !is_aligned) return std::nullopt;
  return TableMatmul{dtype, out, tf32, one_scale, transpose_a, transpose_b, epilogue, M, N, K};
}

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(kMostAlignment, address & (~address + 1)));
}

Problem problem_of(CudaStream stream, const Gemm& g, bool bias, const void* c) {
  const Size lda = g.lda ? g.lda : (g.transpose_a ? g.M : g.K), ldb = g.ldb ? g.ldb : (g.transpose_b ? g.K : g.N),
             ldd = g.ldd ? g.ldd : g.N;
  const bool own_c = c != g.d;
  return {{g.M, g.N, g.K, lda, ldb, ldd, own_c ? g.N : ldd, g.batch, g.stride_a, g.stride_b, g.stride_d,
           own_c ? 0 : g.stride_d},
          {g.transpose_a, g.transpose_b, g.settings.tf32 && g.dtype == DType::f32, g.one_scale},
          epilogue_of(g, bias),
          g.dtype,
          g.out,
          {alignment_of(g.a), alignment_of(g.b), alignment_of(c), alignment_of(g.d)},
          stream.device,
          g.pinned};
}

Cublas::Cublas(int device) : device_(device) {
  LT_CUDA(cudaSetDevice(device));  // a handle belongs to the current device
  LT_CUBLAS(cublasLtCreate(&handle_));
  table_ = carried_algorithms(gpu());
}

Cublas& Cublas::of(int device) {
  static auto& all = *new std::map<int, Cublas>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  return all.try_emplace(device, device).first->second;
}

GpuKind Cublas::gpu() const {
  GpuKind kind{.architecture = device::cuda::compute_capability(device_), .multiprocessors = 0};
  LT_CUDA(cudaDeviceGetAttribute(&kind.multiprocessors, cudaDevAttrMultiProcessorCount, device_));
  return kind;
}

void Cublas::use(std::optional<AlgorithmTable> table) {
  const std::lock_guard lock(mutex_);
  table_ = std::move(table);
  prepared_.clear();
}

Prepared* Cublas::prepare(const Problem& problem) {
  const std::lock_guard lock(mutex_);
  auto found = prepared_.find(problem);
  if (found == prepared_.end()) found = prepared_.emplace(problem, make(problem)).first;
  return found->second.get();
}

void Cublas::run(Prepared& p, const void* alpha, const void* beta, const Gemm& g, const void* c, CudaStream stream) {
  // Sets pointers in the description, which only this thread uses while the engine runs.
  const auto set = [&](cublasLtMatmulDescAttributes_t name, const void* pointer) {
    if (pointer == nullptr) return;
    LT_CUBLAS(cublasLtMatmulDescSetAttribute(p.operation.get(), name, &pointer, sizeof pointer));
  };
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.sum_a_M != nullptr ? g.sum_a_M : g.bias_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, g.gelu_input_MN != nullptr ? g.gelu_input_MN : g.gelu_gradient_of_MN);
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, g.b_scales);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, g.a_scales);
  const auto launch = [&](const Algorithm& algorithm) {
    void* const workspace = algorithm.has_workspace ? memory::matmul_workspace(stream) : nullptr;
    return cublasLtMatmul(handle_, p.operation.get(), alpha, g.b, p.a.get(), g.a, p.b.get(), beta, c, p.c.get(), g.d,
                          p.d.get(), &algorithm.words, workspace, workspace_bytes(algorithm.has_workspace),
                          static_cast<cudaStream_t>(stream.handle));
  };
  if (search_ != nullptr && !g.accumulate && may_time(stream)) search_->see(p, launch);
  const cublasStatus_t status = launch(p.choice.algorithm);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED || p.choice.algorithm == p.first) return LT_CUBLAS(status);
  // cuBLASLt may refuse to launch a configuration that it has not proposed.
  p.choice.algorithm = p.first;
  give_notice_of_proposals();
  LT_CUBLAS(launch(p.first));
}

void Cublas::run_chosen(Prepared& p, const Gemm& g, CudaStream stream, const std::function<void()>& fused,
                        const std::function<void()>& passes) {
  if (search_ != nullptr && !g.accumulate && may_time(stream)) return search_->see(p, fused, passes);
  p.choice.fused ? fused() : passes();
}

std::vector<Algorithm> Cublas::all_algorithms(const Prepared& p) const {
  std::vector<Algorithm> all;
  add_proposals(all, p, true);
  add_proposals(all, p, false);
  add_tiles(all, p);
  // A table must be able to name the algorithm.
  std::erase_if(all, [&](const Algorithm& algorithm) {
    return algorithm_of(handle_, types_of(p.problem), attributes_of(algorithm)) != algorithm;
  });
  return all;
}

std::optional<Choice> Cublas::find(const Prepared& p) const {
  const std::optional<TableMatmul> matmul = p.problem.in_table();
  const TableAlgorithm* const entry = table_ && matmul ? table_->find(*matmul) : nullptr;
  if (entry == nullptr) return std::nullopt;
  if (entry->passes) return Choice{p.first, false};
  const std::optional<Algorithm> algorithm = algorithm_of(handle_, types_of(p.problem), *entry);
  if (!algorithm) return std::nullopt;
  const std::optional<std::size_t> needed = needed_workspace(p, algorithm->words);
  if (!needed || *needed > workspace_bytes(algorithm->has_workspace)) return std::nullopt;
  return Choice{*algorithm};
}

std::unique_ptr<Prepared> Cublas::make(const Problem& q) const {
  const auto [M, N, K, lda, ldb, ldd, ld_c, batch, stride_a, stride_b, stride_d, stride_c] = q.sizes;
  const auto [transpose_a, transpose_b, tf32, one_scale] = q.flags;
  auto p = std::make_unique<Prepared>(q);
  cublasLtMatmulDesc_t operation = nullptr;
  LT_CUBLAS(cublasLtMatmulDescCreate(&operation, compute_type(q), scale_type(q)));
  p->operation.reset(operation);
  const auto set = [&](cublasLtMatmulDescAttributes_t name, auto value) {
    LT_CUBLAS(cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof value));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (q.dtype == DType::e4m3) {
    const std::int32_t mode =
        one_scale ? CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F : CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
    // Without an address there is no algorithm for scales of rows. run() sets the real ones.
    const void* const somewhere = memory::matmul_workspace({nullptr, q.device});
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, somewhere);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, somewhere);
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{!one_scale});
  }
  const Epilogue e = q.epilogue;
  if (e != Epilogue::none) set(CUBLASLT_MATMUL_DESC_EPILOGUE, to_cublas(e));
  if (e == Epilogue::bias || e == Epilogue::bias_gelu || e == Epilogue::sum_a) {
    const DType type = e == Epilogue::sum_a ? gradient_dtype(q.dtype) : bias_dtype(q.dtype);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(data_type(type)));
  }
  if (e == Epilogue::gelu || e == Epilogue::bias_gelu || e == Epilogue::gelu_gradient) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(N));
  }
  p->a = transpose_b ? layout(q.dtype, K, N, ldb, batch, stride_b) : layout(q.dtype, N, K, ldb, batch, stride_b);
  p->b = transpose_a ? layout(q.dtype, M, K, lda, batch, stride_a) : layout(q.dtype, K, M, lda, batch, stride_a);
  p->c = layout(q.out, N, M, ld_c, batch, stride_c);
  p->d = layout(q.out, N, M, ldd, batch, stride_d);

  std::vector<Algorithm> proposals;
  if (!q.pinned) add_proposals(proposals, *p, true);
  if (proposals.empty()) add_proposals(proposals, *p, false);
  if (proposals.empty()) return nullptr;
  p->first = proposals.front();
  const std::optional<Choice> found = find(*p);
  p->choice = found.value_or(Choice{p->first, fuses(q.epilogue)});
  if (!found && q.in_table() && dtype_bytes(q.dtype) <= 2 && M * N * K >= kLarge) give_notice_of_proposals();
  return p;
}

void Cublas::add_proposals(std::vector<Algorithm>& all, const Prepared& p, bool has_workspace) const {
  const Problem& q = p.problem;
  cublasLtMatmulPreference_t made = nullptr;
  LT_CUBLAS(cublasLtMatmulPreferenceCreate(&made));
  const MatmulPreference preference(made);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    LT_CUBLAS(cublasLtMatmulPreferenceSetAttribute(made, name, &value, sizeof value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes(has_workspace)});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, q.alignment[1]);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, q.alignment[0]);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, q.alignment[2]);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, q.alignment[3]);
  // The parts of a split sum stay in f32 and are added in a fixed order. Other schemes round each part to the output's
  // type, or add them in the order in which they end.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  std::array<cublasLtMatmulHeuristicResult_t, kProposals> results{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, p.operation.get(), p.a.get(), p.b.get(), p.c.get(), p.d.get(), made, kProposals, results.data(), &found);
  if (status != CUBLAS_STATUS_SUCCESS) return;
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) all.push_back({result.algo, has_workspace});
  }
}

void Cublas::add_tiles(std::vector<Algorithm>& all, const Prepared& p) const {
  const Problem& q = p.problem;
  const Size M = q.sizes[0], N = q.sizes[1], batch = q.sizes[7];
  // The estimate is for one matrix. GELU's gradient takes three times as long with these tiles, and e4m3 gains nothing.
  const bool may_gain = batch == 1 && dtype_bytes(q.dtype) == 2 && q.epilogue != Epilogue::gelu_gradient;
  const auto is_tiled = [](const Algorithm& algorithm) { return is_tiled_algorithm(algorithm.words); };
  if (!may_gain || std::ranges::none_of(all, is_tiled)) return;
  // Unlike a proposal, a configuration that cuBLASLt accepts may need better aligned addresses than this matmul has.
  const auto is_aligned = [](std::uint32_t alignment) { return alignment == kMostAlignment; };
  if (!std::all_of(q.alignment.begin(), q.alignment.end(), is_aligned)) return;
  std::optional<cublasLtMatmulAlgo_t> algorithm = tiled_algorithm(handle_, data_type(q.dtype), data_type(q.out));
  if (!algorithm) return;
  for (const TileConfiguration& tile : tiles_by_cost(M, N, gpu().multiprocessors)) {
    set_tile(*algorithm, tile);
    const std::optional<std::size_t> needed = needed_workspace(p, *algorithm);
    if (needed && *needed <= workspace_bytes(true)) all.push_back({*algorithm, *needed > 0});
  }
}

std::optional<std::size_t> Cublas::needed_workspace(const Prepared& p, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  if (cublasLtMatmulAlgoCheck(handle_, p.operation.get(), p.a.get(), p.b.get(), p.c.get(), p.d.get(), &algorithm,
                              &result) != CUBLAS_STATUS_SUCCESS) {
    return std::nullopt;
  }
  return result.workspaceSize;
}

}  // namespace lt::kernels
