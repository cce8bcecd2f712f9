// Matmuls that cuBLASLt computes: their description, the choice of an algorithm, and their launch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "device/cuda.h"
#include "kernels/cuda/algorithm_file.h"
#include "kernels/cuda/cublas_handle.h"
#include "kernels/cuda/matmul_tiles.h"
#include "kernels/gemm.h"
#include "kernels/matmul_search.h"
#include "kernels/sustained_choice.h"

namespace lt::kernels {

// Work that cuBLASLt fuses into the matmul.
enum class Epilogue { none, bias, gelu, bias_gelu, gelu_gradient, sum_a };

// Everything that determines how a matmul is computed.
struct Problem {
  std::array<Size, 12> sizes;  // M N K lda ldb ldd ld_c batch stride_a stride_b stride_d stride_c
  std::array<bool, 5> flags;   // transpose_a transpose_b deterministic tf32 one_scale
  Epilogue epilogue;
  DType dtype, out;
  std::array<std::uint32_t, 4> alignment;  // of a, b, c, d
  int device;
  bool pinned;  // not part of text(), because a pinned matmul does not use the file

  auto operator<=>(const Problem&) const = default;

  // The key in the file of chosen algorithms, without spaces.
  std::string text() const;
  // For people.
  std::string name() const;
};

// Describes `g`; with `bias`, its bias is fused. `c` is the matrix that the matmul adds, or d.
Problem problem_of(CudaStream stream, const Gemm& g, bool bias, const void* c);
// Returns the largest power of two up to 128 that divides an address. Every allocation and every parameter has that
// alignment, so the shapes alone decide which algorithms may be used.
std::uint32_t alignment_of(const void* pointer);

// How a matmul is computed.
struct Choice {
  Algorithm algorithm;
  std::optional<bool> fused_wins;  // the fused matmul beats separate passes; nullopt: not known yet
};

// A matmul ready to launch: descriptions of the operation and its matrices, and the algorithm.
struct Prepared {
  explicit Prepared(const Problem& described) : problem(described) {}
  Choice choice() const { return {candidates.front(), fused_wins}; }

  Problem problem;
  MatmulDescription operation;
  MatrixLayout a, b, c, d;
  std::vector<Algorithm> candidates;  // only the chosen one after the choice
  std::optional<bool> fused_wins;     // as in Choice
};

using ReportSearch = std::function<void(const SearchedMatmul&)>;

class Cublas {
 public:
  explicit Cublas(int device) : file_(device) { LT_CUBLAS(cublasLtCreate(&handle_)); }

  static Cublas& of(int device);

  // Returns null if cuBLASLt has no algorithm for the problem.
  Prepared* prepare(const Problem& problem);
  // Launches d = alpha op(A) op(B) + beta c for `g`. First chooses the algorithm if this call may be timed.
  void run(Prepared& p, const void* alpha, const void* beta, const Gemm& g, const void* c, CudaStream stream);

  // Runs the fused matmul or separate passes: the one that was faster in the first call of `g` that could be repeated.
  template <class Fused, class Separate>
  void run_faster(Prepared& p, const Gemm& g, CudaStream stream, Fused&& fused, Separate&& separate) {
    const bool repeatable = !g.accumulate;
    if (counted_ != nullptr && repeatable && may_time(stream)) {  // a search times both, too
      fused();
      return separate();
    }
    if (must_search(p) && repeatable && may_time(stream)) return search_passes(p, stream, fused, separate);
    if (p.fused_wins) return *p.fused_wins ? fused() : separate();
    if (!repeatable || !may_time(stream)) return separate();
    if (g.settings.varied_sizes) return take_known(p) && *p.fused_wins ? fused() : separate();
    const AlgorithmFile::Turn turn(file_);
    if (take_known(p)) return *p.fused_wins ? fused() : separate();
    fused();  // also chooses the algorithm
    separate();
    const double separate_ms = mean_ms(stream, kTimedCalls, separate);
    fused();
    const double fused_ms = mean_ms(stream, kTimedCalls, fused);
    p.fused_wins = fused_ms < kBetterThanFirst * separate_ms;
    file_.add(p.problem.text(), *p.fused_wins ? p.candidates.front() : Algorithm{});
  }

  // Sets the candidates to all algorithms that a search compares with the present choice.
  void take_search_candidates(Prepared& p) const;
  // As in matmul_search.h.
  void search(const std::function<void()>& compute, const ReportSearch& report);
  void use(Algorithms which);
  std::string keep_found();

 private:
  static bool may_time(CudaStream stream);
  // Returns the mean milliseconds of consecutive calls. The caller must have made one call before.
  template <class Launch>
  static double mean_ms(CudaStream stream, int calls, Launch&& launch) {
    const Stream compute = Stream::compute({DeviceType::cuda, stream.device});
    const TimePoint begin = TimePoint::on(compute);
    for (int call = 0; call < calls; ++call) launch();
    return TimePoint::on(compute).ms_since(begin) / calls;
  }

  // Keeps only the candidate that is fastest for this call.
  template <class Launch>
  static void choose(std::vector<Algorithm>& candidates, Launch&& launch, CudaStream stream);
  // True if a search is running that has not searched this matmul yet.
  bool must_search(Prepared& p) const { return report_ != nullptr && !searched_.contains(&p); }
  // Keeps only the candidate that is fastest when sustained. Keeps the run's choice unless another is faster by 1 %.
  template <class Launch>
  void search_algorithm(Prepared& p, Launch&& launch, CudaStream stream);
  // Searches the algorithms of the fused matmul and of its passes, then compares both.
  template <class Fused, class Separate>
  void search_passes(Prepared& p, CudaStream stream, Fused&& fused, Separate&& separate) {
    fused();
    separate();
    const bool begins_fused = p.fused_wins.value_or(false);
    const SustainedChoice chosen = fastest_when_sustained(2, [&](std::size_t way, int calls) {
      return (way == 0) == begins_fused ? mean_ms(stream, calls, fused) : mean_ms(stream, calls, separate);
    });
    p.fused_wins = (chosen.way == 0) == begins_fused;
    searched_.at(&p).found.fused_wins = p.fused_wins;
  }
  // Takes the file's choice for a matmul. Returns false if the file has none that suits it.
  bool take_known(Prepared& p) const;
  std::unique_ptr<Prepared> make(const Problem& q);
  // Adds the algorithms that cuBLASLt proposes with or without a workspace, best first.
  void add_candidates(Prepared& p, bool has_workspace) const;
  // Adds tile configurations if cuBLASLt proposes the algorithm that has them; of the usual ones, only those of lowest
  // cost.
  void add_tiles(Prepared& p, Tiles which) const;
  // Returns the bytes of workspace that an algorithm needs for the matmul; nullopt if it cannot compute it.
  std::optional<std::size_t> needed_workspace(const Prepared& p, const cublasLtMatmulAlgo_t& algorithm) const;

  static constexpr int kTimedCalls = 4;             // per candidate, after one untimed call
  static constexpr double kBetterThanFirst = 0.98;  // fraction of the other's time; a smaller gain may be noise

  AlgorithmFile file_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Problem, std::unique_ptr<Prepared>> prepared_;

  struct Searched {
    Choice present, found;
  };
  std::set<Prepared*>* counted_ = nullptr;  // set while a search counts its matmuls
  const ReportSearch* report_ = nullptr;    // set while it searches
  Size to_search_ = 0;                      // matmuls to search
  std::map<Prepared*, Searched> searched_;
};

}  // namespace lt::kernels
