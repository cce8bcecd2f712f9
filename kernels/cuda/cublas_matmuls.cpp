// Describes matmuls to cuBLASLt and times its algorithms. cuBLASLt is column-major, so it sees a row-major matrix as
// its transpose. The row-major D = op(A) op(B) is therefore computed as D^T = op(B)^T op(A)^T, with swapped operands.
#include "kernels/cuda/cublas_matmuls.h"

#include <algorithm>
#include <array>
#include <utility>

#include "device/cuda_error.h"
#include "kernels/cuda/matmul_tiles.h"
#include "kernels/gemm_in_passes.h"
#include "memory/workspace.h"

namespace lt::kernels {
namespace {

// How many of cuBLASLt's top heuristics are timed, with a workspace and without, and how many configurations of tiles.
constexpr int kCandidates = 8, kTimedTiles = 8;
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

// The file's entry for a matmul that is slower when fused.
bool is_none(const Algorithm& algorithm) {
  const auto& words = algorithm.words.data;
  return std::all_of(std::begin(words), std::end(words), [](auto word) { return word == 0; });
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

std::string Problem::text() const {
  std::string text = std::string(dtype_name(dtype)) + "," + std::string(dtype_name(out));
  const auto add = [&](const auto& numbers) {
    for (const auto number : numbers) text += "," + std::to_string(number);
  };
  add(sizes), add(flags), add(alignment);
  return text + "," + std::to_string(static_cast<int>(epilogue));
}

std::string Problem::name() const {
  std::string text(dtype_name(dtype));
  if (out != dtype) text += " to " + std::string(dtype_name(out));
  text += " " + std::to_string(sizes[0]) + " x " + std::to_string(sizes[1]) + " x " + std::to_string(sizes[2]);
  if (sizes[7] > 1) text += ", batch of " + std::to_string(sizes[7]);
  if (flags[0]) text += ", A transposed";
  if (flags[1]) text += ", B transposed";
  switch (epilogue) {
    case Epilogue::none: return text;
    case Epilogue::bias: return text + ", bias";
    case Epilogue::gelu: return text + ", GELU";
    case Epilogue::bias_gelu: return text + ", bias and GELU";
    case Epilogue::gelu_gradient: return text + ", GELU's gradient";
    case Epilogue::sum_a: return text + ", sums of A";
  }
  throw InternalError("kernels", "gemm: no such epilogue");
}

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return static_cast<std::uint32_t>(std::min<std::uintptr_t>(kMostAlignment, address & (~address + 1)));
}

Problem problem_of(CudaStream stream, const Gemm& g, bool bias, const void* c) {
  const Size lda = g.lda ? g.lda : (g.transpose_a ? g.M : g.K), ldb = g.ldb ? g.ldb : (g.transpose_b ? g.K : g.N),
             ldd = g.ldd ? g.ldd : g.N;
  const bool own_c = c != g.d;
  return {
      {g.M, g.N, g.K, lda, ldb, ldd, own_c ? g.N : ldd, g.batch, g.stride_a, g.stride_b, g.stride_d,
       own_c ? 0 : g.stride_d},
      {g.transpose_a, g.transpose_b, g.settings.deterministic, g.settings.tf32 && g.dtype == DType::f32, g.one_scale},
      epilogue_of(g, bias),
      g.dtype,
      g.out,
      {alignment_of(g.a), alignment_of(g.b), alignment_of(c), alignment_of(g.d)},
      stream.device,
      g.pinned};
}

Cublas& Cublas::of(int device) {
  static auto& all = *new std::map<int, Cublas>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  return all.try_emplace(device, device).first->second;
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
  // A call that adds to d cannot be repeated; a later call may choose.
  const bool may_choose = !g.accumulate && !g.pinned && !g.settings.deterministic;
  if (may_choose && counted_ != nullptr && may_time(stream)) counted_->insert(&p);
  if (may_choose && must_search(p) && may_time(stream)) {
    search_algorithm(p, launch, stream);
  } else if (may_choose && p.candidates.size() > 1 && may_time(stream)) {
    if (g.settings.varied_sizes) {
      take_known(p);
    } else if (has_passes(g)) {  // in the turn of run_faster(), which keeps the choice
      choose(p.candidates, launch, stream);
    } else {
      const AlgorithmFile::Turn turn(file_);
      if (!take_known(p)) {
        choose(p.candidates, launch, stream);
        file_.add(p.problem.text(), p.candidates.front());
      }
    }
  }
  LT_CUBLAS(launch(p.candidates.front()));
}

bool Cublas::may_time(CudaStream stream) {
  const Stream compute = Stream::compute({DeviceType::cuda, stream.device});
  return stream.handle == compute.cuda().handle && !device::cuda::is_capturing(stream);
}

template <class Launch>
void Cublas::choose(std::vector<Algorithm>& candidates, Launch&& launch, CudaStream stream) {
  std::size_t best = 0;
  double first_ms = 0, best_ms = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    // cuBLASLt may refuse to launch a configuration that it has not proposed.
    if (launch(candidates[i]) != CUBLAS_STATUS_SUCCESS && i > 0) continue;
    const double ms = mean_ms(stream, kTimedCalls, [&] { LT_CUBLAS(launch(candidates[i])); });
    if (i == 0) first_ms = best_ms = ms;
    if (ms < best_ms && ms < kBetterThanFirst * first_ms) best = i, best_ms = ms;
  }
  candidates = {candidates[best]};
}

template <class Launch>
void Cublas::search_algorithm(Prepared& p, Launch&& launch, CudaStream stream) {
  if (p.candidates.size() > 1) choose(p.candidates, launch, stream);
  const Choice present = p.choice();
  LT_CUBLAS(launch(present.algorithm));
  take_search_candidates(p);
  std::erase_if(p.candidates, [&](const Algorithm& candidate) {
    return candidate == present.algorithm || launch(candidate) != CUBLAS_STATUS_SUCCESS;
  });
  p.candidates.insert(p.candidates.begin(), present.algorithm);
  const SustainedChoice chosen = fastest_when_sustained(p.candidates.size(), [&](std::size_t way, int calls) {
    return mean_ms(stream, calls, [&] { LT_CUBLAS(launch(p.candidates[way])); });
  });
  p.candidates = {p.candidates[chosen.way]};
  searched_[&p] = {present, p.choice()};
  (*report_)({p.problem.name(), chosen.first_ms, chosen.ms, to_search_});
}

void Cublas::take_search_candidates(Prepared& p) const {
  p.candidates.clear();
  add_candidates(p, true);
  add_candidates(p, false);
  add_tiles(p, Tiles::all);
}

void Cublas::search(const std::function<void()>& compute, const ReportSearch& report) {
  const struct End {
    Cublas& cublas;
    ~End() { cublas.counted_ = nullptr, cublas.report_ = nullptr; }
  } end{*this};
  file_.require_writable();
  std::set<Prepared*> counted;
  counted_ = &counted;
  compute();
  counted_ = nullptr;
  to_search_ = static_cast<Size>(counted.size());
  report_ = &report;
  searched_.clear();
  compute();
}

void Cublas::use(Algorithms which) {
  for (auto& [p, searched] : searched_) {
    const Choice& choice = which == Algorithms::found ? searched.found : searched.present;
    p->candidates = {choice.algorithm}, p->fused_wins = choice.fused_wins;
  }
}

std::string Cublas::keep_found() {
  const AlgorithmFile::Turn turn(file_);
  for (const auto& [p, searched] : searched_) {
    const auto& [algorithm, fused_wins] = searched.found;
    if (!file_.add(p->problem.text(), fused_wins.value_or(true) ? algorithm : Algorithm{})) return "";
  }
  return file_.path();
}

bool Cublas::take_known(Prepared& p) const {
  const auto known = file_.find(p.problem.text());
  if (!known) return false;
  if (is_none(*known)) return p.fused_wins = false, true;
  const std::optional<std::size_t> needed = needed_workspace(p, known->words);
  if (!needed || *needed > workspace_bytes(known->has_workspace)) return false;
  p.candidates = {*known}, p.fused_wins = true;
  return true;
}

std::unique_ptr<Prepared> Cublas::make(const Problem& q) {
  const auto [M, N, K, lda, ldb, ldd, ld_c, batch, stride_a, stride_b, stride_d, stride_c] = q.sizes;
  const auto [transpose_a, transpose_b, deterministic, rounded, one_scale] = q.flags;
  auto p = std::make_unique<Prepared>(q);
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

  if (!q.pinned) add_candidates(*p, true);
  // Deterministic matmuls take the first algorithm. If none may use a workspace, there is none without one either.
  if (q.pinned || (!deterministic && !p->candidates.empty())) add_candidates(*p, false);
  if (p->candidates.empty()) return nullptr;
  if (!deterministic && !q.pinned && !take_known(*p)) add_tiles(*p, Tiles::usual);
  return p;
}

void Cublas::add_candidates(Prepared& p, bool has_workspace) const {
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
  // Keeps the parts of a split sum in f32; otherwise some algorithms round each part to the output's type.
  if (dtype_bytes(q.out) < 4) {
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  }
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, p.operation.get(), p.a.get(), p.b.get(), p.c.get(), p.d.get(), made,
                                     kCandidates, results.data(), &found);
  if (status != CUBLAS_STATUS_SUCCESS) return;
  for (int i = 0; i < found; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) p.candidates.push_back({result.algo, has_workspace});
  }
}

void Cublas::add_tiles(Prepared& p, Tiles which) const {
  const Problem& q = p.problem;
  const Size M = q.sizes[0], N = q.sizes[1], batch = q.sizes[7];
  // The estimate is for one matrix. GELU's gradient takes three times as long with these tiles, and e4m3 gains nothing.
  const bool may_gain = batch == 1 && dtype_bytes(q.dtype) == 2 && q.epilogue != Epilogue::gelu_gradient;
  const auto is_tiled = [](const Algorithm& algorithm) { return is_tiled_algorithm(algorithm.words); };
  if (!may_gain || std::none_of(p.candidates.begin(), p.candidates.end(), is_tiled)) return;
  // Unlike a proposal, a configuration that cuBLASLt accepts may need better aligned addresses than this matmul has.
  const auto is_aligned = [](std::uint32_t alignment) { return alignment == kMostAlignment; };
  if (!std::all_of(q.alignment.begin(), q.alignment.end(), is_aligned)) return;
  std::optional<cublasLtMatmulAlgo_t> algorithm = tiled_algorithm(handle_, data_type(q.dtype), data_type(q.out));
  if (!algorithm) return;
  int multiprocessors = 0;
  LT_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, q.device));
  int added = 0;
  for (const TileConfiguration& tile : tiles_by_cost(M, N, multiprocessors, which)) {
    set_tile(*algorithm, tile);
    const std::optional<std::size_t> needed = needed_workspace(p, *algorithm);
    if (!needed || *needed > workspace_bytes(true)) continue;
    p.candidates.push_back({*algorithm, *needed > 0});
    if (++added == kTimedTiles && which == Tiles::usual) return;
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
