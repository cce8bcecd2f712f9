// Products that cuBLASLt computes: their description, the choice among its algorithms, and their launch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device/cuda.h"
#include "kernels/cuda/algorithm_file.h"
#include "kernels/cuda/cublas_handle.h"
#include "kernels/gemm.h"

namespace lt::kernels {

// Work that cuBLASLt does beside the product.
enum class Epilogue { none, bias, gelu, bias_gelu, gelu_gradient, sum_a };

// Everything that decides how a product is computed.
struct Problem {
  std::array<Size, 12> sizes;  // M N K lda ldb ldd ld_c batch stride_a stride_b stride_d stride_c
  std::array<bool, 5> flags;   // transpose_a transpose_b deterministic tf32 one_scale
  Epilogue epilogue;
  DType dtype, out;
  std::array<std::uint32_t, 4> alignment;  // of a, b, c, d
  int device;
  bool pinned;  // not part of the text: it does not choose an algorithm

  auto operator<=>(const Problem&) const = default;

  // Without spaces.
  std::string text() const;
};

// Describes `g`, with its bias inside the product if `bias`. `c` is the matrix that the product adds, or d.
Problem problem_of(CudaStream stream, const Gemm& g, bool bias, const void* c);
// The largest power of two up to 128 that divides an address. Every allocation and every parameter has that
// alignment, so the shapes alone decide which algorithms may be used.
std::uint32_t alignment_of(const void* pointer);

// A product ready to launch: descriptions of the operation and its matrices, and the algorithm.
struct Prepared {
  MatmulDescription operation;
  MatrixLayout a, b, c, d;
  std::vector<Algorithm> candidates;  // only the chosen one after the choice
  std::string problem;                // key in the file of chosen algorithms
  std::optional<bool> fused_wins;     // against separate passes; empty: not known yet
};

class Cublas {
 public:
  explicit Cublas(int device) : file_(device) { LT_CUBLAS(cublasLtCreate(&handle_)); }

  static Cublas& of(int device);

  // Returns null if cuBLASLt has no algorithm for the problem.
  Prepared* prepare(const Problem& problem);
  // Launches alpha times the product of g plus beta times c. Chooses the algorithm first if it may.
  void run(Prepared& p, const void* alpha, const void* beta, const Gemm& g, const void* c, CudaStream stream);

  // Runs the fused product or separate passes, whichever was faster in the first call that could be repeated.
  template <class Fused, class Separate>
  void run_faster(Prepared& p, bool repeatable, CudaStream stream, Fused&& fused, Separate&& separate) {
    if (p.fused_wins) return *p.fused_wins ? fused() : separate();
    if (!repeatable || !may_time(stream)) return separate();
    const AlgorithmFile::Turn turn(file_);
    if (take_known(p)) return *p.fused_wins ? fused() : separate();
    fused();  // also chooses the algorithm
    separate();
    const double separate_ms = time_ms(stream, separate);
    fused();
    const double fused_ms = time_ms(stream, fused);
    p.fused_wins = fused_ms < kBetterThanFirst * separate_ms;
    file_.add(p.problem, *p.fused_wins ? p.candidates.front() : Algorithm{});
  }

 private:
  static bool may_time(CudaStream stream);
  // Time of kTimedCalls calls together. The caller has made one before.
  template <class Launch>
  static double time_ms(CudaStream stream, Launch&& launch) {
    const Stream compute = Stream::compute({DeviceType::cuda, stream.device});
    const TimePoint begin = TimePoint::on(compute);
    for (int call = 0; call < kTimedCalls; ++call) launch();
    return TimePoint::on(compute).ms_since(begin);
  }

  // Leaves only the candidate that is fastest for this very call.
  template <class Launch>
  static void choose(std::vector<Algorithm>& candidates, Launch&& launch, CudaStream stream);
  // Takes the file's choice for a product, if it has one that suits the product.
  bool take_known(Prepared& p) const;
  std::unique_ptr<Prepared> make(const Problem& q);
  // Adds what cuBLASLt proposes with that workspace, best first.
  void add_candidates(Prepared& p, const Problem& q, bool has_workspace) const;
  // Adds the configurations of lowest cost, if cuBLASLt proposes the algorithm that has them.
  void add_tiles(Prepared& p, const Problem& q) const;
  // Bytes of workspace that an algorithm needs for the product; null if it does not suit it.
  std::optional<std::size_t> needed_workspace(const Prepared& p, const cublasLtMatmulAlgo_t& algorithm) const;

  static constexpr int kTimedCalls = 4;             // per candidate, after one untimed call
  static constexpr double kBetterThanFirst = 0.98;  // share of the other's time; a smaller gain may be noise

  AlgorithmFile file_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Problem, std::unique_ptr<Prepared>> prepared_;
};

}  // namespace lt::kernels
