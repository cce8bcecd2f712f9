// Matrix products through cuBLASLt. It is column-major, and there a row-major matrix is its own transpose. So the
// row-major D = op(A) op(B) is computed as D^T = op(B)^T op(A)^T, with swapped operands.
#include "kernels/gemm.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda.h"
#include "device/cuda_error.h"
#include "kernels/cuda/algorithm_file.h"
#include "kernels/cuda/cublas_handle.h"
#include "kernels/elementwise.h"
#include "kernels/few_rows.h"
#include "kernels/gemm_in_passes.h"
#include "memory/workspace.h"

namespace lt::kernels {
namespace {

// How many of cuBLASLt's top heuristics are timed.
constexpr int kCandidates = 8;
constexpr int kTimedCalls = 4;             // per candidate, after one untimed call
constexpr double kBetterThanFirst = 0.98;  // share of the other's time; a smaller gain may be noise
// Every allocation has this alignment, so the shapes alone decide which algorithms may be used.
constexpr std::uint32_t kMostAlignment = 128;

cudaDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDA_R_64F;
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    default: break;
  }
  throw InternalError("kernels", "gemm: expected f32, f64, bf16 or f16, found " + std::string(dtype_name(dtype)));
}

// The largest power of two that divides an address.
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(kMostAlignment, address & (~address + 1)));
}

// Work that cuBLASLt does beside the product.
enum class Epilogue { none, bias, gelu, bias_gelu, gelu_gradient, sum_a };

Epilogue epilogue_of(const Gemm& g, bool bias) {
  if (g.gelu_gradient_of_MN != nullptr) return Epilogue::gelu_gradient;
  if (g.sum_a_M != nullptr) return Epilogue::sum_a;
  if (g.gelu_input_MN != nullptr) return bias ? Epilogue::bias_gelu : Epilogue::gelu;
  return bias ? Epilogue::bias : Epilogue::none;
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

// Everything that decides how a product is computed.
struct Problem {
  std::array<Size, 12> sizes;  // M N K lda ldb ldd ld_c batch stride_a stride_b stride_d stride_c
  std::array<bool, 4> flags;   // transpose_a transpose_b deterministic tf32
  Epilogue epilogue;
  DType dtype, out;
  std::array<std::uint32_t, 4> alignment;  // of a, b, c, d
  int device;
  bool pinned;  // not part of the text: it does not choose an algorithm

  auto operator<=>(const Problem&) const = default;

  // Without spaces.
  std::string text() const {
    std::string text = std::string(dtype_name(dtype)) + "," + std::string(dtype_name(out));
    const auto add = [&](const auto& numbers) {
      for (const auto number : numbers) text += "," + std::to_string(number);
    };
    add(sizes), add(flags), add(alignment);
    return text + "," + std::to_string(static_cast<int>(epilogue));
  }
};

// A product ready to launch: descriptions of the operation and its matrices, and the algorithm.
struct Prepared {
  MatmulDescription operation;
  MatrixLayout a, b, c, d;
  std::vector<cublasLtMatmulAlgo_t> candidates;  // in cuBLASLt's order; only the chosen one after the choice
  std::string problem;                           // key in the file of chosen algorithms
  std::optional<bool> fused_wins;                // against separate passes; empty: not known yet
};

class Cublas {
 public:
  explicit Cublas(int device) : file_(device) { LT_CUBLAS(cublasLtCreate(&handle_)); }

  static Cublas& of(int device) {
    static auto& all = *new std::map<int, Cublas>;
    static auto& mutex = *new std::mutex;
    const std::lock_guard lock(mutex);
    return all.try_emplace(device, device).first->second;
  }

  // Returns null if cuBLASLt has no algorithm for the problem.
  Prepared* prepare(const Problem& problem) {
    const std::lock_guard lock(mutex_);
    auto found = prepared_.find(problem);
    if (found == prepared_.end()) found = prepared_.emplace(problem, make(problem)).first;
    return found->second.get();
  }

  void run(Prepared& p, const void* alpha, const void* beta, const Gemm& g, const void* c, CudaStream stream) {
    // Sets pointers in the description, which only this thread uses while the engine runs.
    const auto set = [&](cublasLtMatmulDescAttributes_t name, const void* pointer) {
      if (pointer == nullptr) return;
      LT_CUBLAS(cublasLtMatmulDescSetAttribute(p.operation.get(), name, &pointer, sizeof pointer));
    };
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.sum_a_M != nullptr ? g.sum_a_M : g.bias_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        g.gelu_input_MN != nullptr ? g.gelu_input_MN : g.gelu_gradient_of_MN);
    const auto launch = [&](const cublasLtMatmulAlgo_t& algorithm) {
      LT_CUBLAS(cublasLtMatmul(handle_, p.operation.get(), alpha, g.b, p.a.get(), g.a, p.b.get(), beta, c, p.c.get(),
                               g.d, p.d.get(), &algorithm, g.pinned ? nullptr : cuda::product_workspace(stream),
                               static_cast<std::size_t>(workspace_bytes(g.pinned)),
                               static_cast<cudaStream_t>(stream.handle)));
    };
    // A call that adds to d cannot be repeated; a later call may choose.
    const bool may_choose = p.candidates.size() > 1 && !g.accumulate && !g.pinned && !g.settings.deterministic;
    if (may_choose && may_time(stream)) {
      if (has_passes(g)) {  // in the turn of run_faster(), which keeps the choice
        choose(p.candidates, launch, stream);
      } else {
        const AlgorithmFile::Turn turn(file_);
        if (!take_known(p)) {
          choose(p.candidates, launch, stream);
          file_.add(p.problem, p.candidates.front());
        }
      }
    }
    launch(p.candidates.front());
  }

  // Runs the fused product or separate passes, whichever was faster in the first call that could be repeated.
  template <class Fused, class Separate>
  void run_faster(Prepared& p, bool repeatable, CudaStream stream, Fused&& fused, Separate&& separate) {
    if (p.fused_wins) return *p.fused_wins ? fused() : separate();
    if (!repeatable || !may_time(stream)) return separate();
    const AlgorithmFile::Turn turn(file_);
    if (take_known(p)) return *p.fused_wins ? fused() : separate();
    fused();  // also chooses the algorithm
    const double separate_ms = time_ms(stream, separate), fused_ms = time_ms(stream, fused);
    p.fused_wins = fused_ms < kBetterThanFirst * separate_ms;
    file_.add(p.problem, *p.fused_wins ? p.candidates.front() : cublasLtMatmulAlgo_t{});
  }

 private:
  static Size workspace_bytes(bool pinned) { return pinned ? 0 : cuda::kProductWorkspaceBytes; }
  static bool may_time(CudaStream stream) {
    const Stream compute = Stream::compute({DeviceType::cuda, stream.device});
    return stream.handle == compute.cuda().handle && !cuda::is_capturing(stream);
  }
  // Time of kTimedCalls calls together, after one untimed call.
  template <class Launch>
  static double time_ms(CudaStream stream, Launch&& launch) {
    const Stream compute = Stream::compute({DeviceType::cuda, stream.device});
    launch();
    const TimePoint begin = TimePoint::on(compute);
    for (int call = 0; call < kTimedCalls; ++call) launch();
    return TimePoint::on(compute).ms_since(begin);
  }

  // Leaves only the candidate that is fastest for this very call.
  template <class Launch>
  static void choose(std::vector<cublasLtMatmulAlgo_t>& candidates, Launch&& launch, CudaStream stream) {
    std::size_t best = 0;
    double first_ms = 0, best_ms = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const double ms = time_ms(stream, [&] { launch(candidates[i]); });
      if (i == 0) first_ms = best_ms = ms;
      if (ms < best_ms && ms < kBetterThanFirst * first_ms) best = i, best_ms = ms;
    }
    candidates = {candidates[best]};
  }

  // Takes the file's choice for a product, if it has one that suits the product.
  bool take_known(Prepared& p) const {
    const auto known = file_.find(p.problem);
    if (!known) return false;
    if (is_none(*known)) return p.fused_wins = false, true;
    if (!takes(p, *known)) return false;
    p.candidates = {*known}, p.fused_wins = true;
    return true;
  }

  static MatrixLayout layout(DType dtype, Size rows, Size columns, Size ld, Size batch, Size stride) {
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

  std::unique_ptr<Prepared> make(const Problem& q) {
    const auto [M, N, K, lda, ldb, ldd, ld_c, batch, stride_a, stride_b, stride_d, stride_c] = q.sizes;
    const auto [transpose_a, transpose_b, deterministic, rounded] = q.flags;
    auto p = std::make_unique<Prepared>();
    cublasLtMatmulDesc_t operation = nullptr;
    const cublasComputeType_t in_f32 = rounded ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const bool f64 = q.dtype == DType::f64;
    LT_CUBLAS(cublasLtMatmulDescCreate(&operation, f64 ? CUBLAS_COMPUTE_64F : in_f32, f64 ? CUDA_R_64F : CUDA_R_32F));
    p->operation.reset(operation);
    const auto set = [&](cublasLtMatmulDescAttributes_t name, auto value) {
      LT_CUBLAS(cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    const Epilogue e = q.epilogue;
    if (e != Epilogue::none) set(CUBLASLT_MATMUL_DESC_EPILOGUE, to_cublas(e));
    if (e == Epilogue::bias || e == Epilogue::bias_gelu || e == Epilogue::sum_a) {
      const DType type = e == Epilogue::sum_a ? gradient_dtype(q.dtype) : q.dtype;
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(data_type(type)));
    }
    if (e == Epilogue::gelu || e == Epilogue::bias_gelu || e == Epilogue::gelu_gradient) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(N));
    }
    p->a = transpose_b ? layout(q.dtype, K, N, ldb, batch, stride_b) : layout(q.dtype, N, K, ldb, batch, stride_b);
    p->b = transpose_a ? layout(q.dtype, M, K, lda, batch, stride_a) : layout(q.dtype, K, M, lda, batch, stride_a);
    p->c = layout(q.out, N, M, ld_c, batch, stride_c);
    p->d = layout(q.out, N, M, ldd, batch, stride_d);

    cublasLtMatmulPreference_t made = nullptr;
    LT_CUBLAS(cublasLtMatmulPreferenceCreate(&made));
    const MatmulPreference preference(made);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
      LT_CUBLAS(cublasLtMatmulPreferenceSetAttribute(made, name, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes(q.pinned)));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, q.alignment[1]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, q.alignment[0]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, q.alignment[2]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, q.alignment[3]);
    // Keeps the parts of a split sum in f32; otherwise some algorithms round each part to the output's type.
    if (dtype_bytes(q.out) < 4) {
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    }
    std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, operation, p->a.get(), p->b.get(), p->c.get(),
                                                                 p->d.get(), made, kCandidates, results.data(), &found);
    if (status != CUBLAS_STATUS_SUCCESS) return nullptr;
    for (int i = 0; i < found; ++i) {
      const auto& result = results[static_cast<std::size_t>(i)];
      if (result.state == CUBLAS_STATUS_SUCCESS) p->candidates.push_back(result.algo);
    }
    if (p->candidates.empty()) return nullptr;
    p->problem = q.text();
    if (!deterministic && !q.pinned) take_known(*p);
    return p;
  }

  // The file's entry for a product that is slower when fused.
  static bool is_none(const cublasLtMatmulAlgo_t& algorithm) {
    return std::all_of(std::begin(algorithm.data), std::end(algorithm.data), [](auto word) { return word == 0; });
  }
  // Whether an algorithm chosen by another run suits this product and its workspace.
  bool takes(const Prepared& p, const cublasLtMatmulAlgo_t& algorithm) const {
    cublasLtMatmulHeuristicResult_t result{};
    return cublasLtMatmulAlgoCheck(handle_, p.operation.get(), p.a.get(), p.b.get(), p.c.get(), p.d.get(), &algorithm,
                                   &result) == CUBLAS_STATUS_SUCCESS &&
           static_cast<Size>(result.workspaceSize) <= cuda::kProductWorkspaceBytes;
  }

  AlgorithmFile file_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Problem, std::unique_ptr<Prepared>> prepared_;
};

// d_MN += x. x is a matrix, or with x_row = 0 one row for all rows of d.
void add_to(CudaStream stream, const Gemm& g, const void* x, DType x_dtype, Size x_row) {
  if (x_dtype != g.out) {  // a bias
    void* const converted = cuda::scratch(stream, g.N * dtype_bytes(g.out));
    convert(stream, g.out, converted, x_dtype, x, g.N, false);
    x = converted;
  }
  const Size ldd = g.ldd ? g.ldd : g.N;
  for (Size item = 0; item < g.batch; ++item) {
    copy_strided(stream, g.out, {2, {g.M, g.N}, {ldd, 1}, {x_row, 1}, {}},
                 static_cast<std::byte*>(g.d) + item * g.stride_d * dtype_bytes(g.out), x, true);
  }
}

// Result of a product with K = 0: zeroes d unless it accumulates.
void clear(CudaStream stream, const Gemm& g) {
  if (g.accumulate) return;
  const Size ldd = g.ldd ? g.ldd : g.N;
  for (Size item = 0; item < g.batch; ++item) {
    auto* const d = static_cast<std::byte*>(g.d) + item * g.stride_d * dtype_bytes(g.out);
    for (Size m = 0; m < g.M; ++m) {
      fill_zero(stream, d + m * ldd * dtype_bytes(g.out), g.N * dtype_bytes(g.out));
    }
  }
}

// `c` is the matrix that the product adds, or d.
Problem problem_of(CudaStream stream, const Gemm& g, bool bias, const void* c) {
  const Size lda = g.lda ? g.lda : (g.transpose_a ? g.M : g.K), ldb = g.ldb ? g.ldb : (g.transpose_b ? g.K : g.N),
             ldd = g.ldd ? g.ldd : g.N;
  const bool own_c = c != g.d;
  return {{g.M, g.N, g.K, lda, ldb, ldd, own_c ? g.N : ldd, g.batch, g.stride_a, g.stride_b, g.stride_d,
           own_c ? 0 : g.stride_d},
          {g.transpose_a, g.transpose_b, g.settings.deterministic, g.settings.tf32 && g.dtype == DType::f32},
          epilogue_of(g, bias),
          g.dtype,
          g.out,
          {alignment_of(g.a), alignment_of(g.b), alignment_of(c), alignment_of(g.d)},
          stream.device,
          g.pinned};
}

// Runs the extra work in separate passes in deterministic mode, for dtypes other than bf16 and f16, for K = 0, and if
// cuBLASLt has no such product. Otherwise picks the faster way.
void gemm_with_passes(CudaStream stream, const Gemm& g) {
  Cublas& cublas = Cublas::of(stream.device);
  const bool possible = !g.settings.deterministic && dtype_bytes(g.dtype) == 2 && g.K > 0;
  Prepared* const prepared = possible ? cublas.prepare(problem_of(stream, g, g.bias_N != nullptr, g.d)) : nullptr;
  if (prepared == nullptr) return gemm_in_passes(stream, g);
  const float one = 1, beta = g.accumulate ? 1 : 0;
  cublas.run_faster(
      *prepared, !g.accumulate, stream, [&] { cublas.run(*prepared, &one, &beta, g, g.d, stream); },
      [&] { gemm_in_passes(stream, g); });
}

// Generation's products. Returns false, and does nothing, for others.
bool try_few_rows(CudaStream stream, const Gemm& g) {
  const bool is_plain = g.settings.constant_weights && g.transpose_b && !g.transpose_a && !g.accumulate && !g.pinned &&
                        g.batch == 1 && g.alpha == 1 && g.out == g.dtype && !has_passes(g);
  const bool is_contiguous =
      (g.lda == 0 || g.lda == g.K) && (g.ldb == 0 || g.ldb == g.K) && (g.ldd == 0 || g.ldd == g.N);
  const bool is_aligned = alignment_of(g.a) >= 16 && alignment_of(g.b) >= 16;
  if (!is_plain || !is_contiguous || !is_aligned || !can_multiply_few_rows(g.dtype, g.M, g.K)) return false;
  multiply_few_rows(stream, FewRows{g.dtype, g.M, g.N, g.K, g.d, g.a, g.b, g.bias_N, g.add_MN});
  return true;
}

}  // namespace

template <>
void gemm(CudaStream stream, const Gemm& g) {
  require_plain_factor(g);
  if (g.M == 0 || g.N == 0 || g.batch == 0 || try_few_rows(stream, g)) return;
  if (g.settings.constant_weights && g.M <= kMostFewRows && g.gelu_input_MN != nullptr)
    return gemm_in_passes(stream, g);
  if (has_passes(g)) return gemm_with_passes(stream, g);
  Gemm product = g;
  // A residual goes in as C unless the call also accumulates into d. Terms that do not go in are added afterwards.
  const bool add_as_c = g.add_MN && !g.accumulate;
  const void* const c = add_as_c ? g.add_MN : g.d;
  bool bias_left = false;
  if (g.K == 0) {
    clear(stream, g);
    if (add_as_c) add_to(stream, g, g.add_MN, g.out, g.N);
    bias_left = g.bias_N != nullptr;
  } else {
    Cublas& cublas = Cublas::of(stream.device);
    const bool bias_inside = g.bias_N && g.dtype == g.out && g.dtype != DType::f64;
    Prepared* prepared = cublas.prepare(problem_of(stream, g, bias_inside, c));
    bias_left = g.bias_N && !(bias_inside && prepared);
    if (prepared == nullptr && bias_inside) prepared = cublas.prepare(problem_of(stream, g, false, c));
    if (prepared == nullptr) {
      throw InternalError("cuda", "cuBLASLt has no algorithm for a product of " + std::to_string(g.M) + " x " +
                                      std::to_string(g.N) + " x " + std::to_string(g.K));
    }
    if (bias_left) product.bias_N = nullptr;
    const float beta_f32 = g.accumulate || add_as_c ? 1.0f : 0.0f;
    const double beta_f64 = static_cast<double>(beta_f32), alpha_f64 = static_cast<double>(g.alpha);
    const bool f64 = g.dtype == DType::f64;
    cublas.run(*prepared, f64 ? static_cast<const void*>(&alpha_f64) : &g.alpha,
               f64 ? static_cast<const void*>(&beta_f64) : &beta_f32, product, c, stream);
  }
  if (bias_left) add_to(stream, g, g.bias_N, g.dtype, 0);
  if (g.add_MN && !add_as_c) add_to(stream, g, g.add_MN, g.out, g.N);
}

}  // namespace lt::kernels
