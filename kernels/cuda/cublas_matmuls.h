// Matmuls that cuBLASLt computes: their description, their algorithm, and their launch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "device/cuda.h"
#include "kernels/algorithm_table.h"
#include "kernels/cuda/algorithm_attributes.h"
#include "kernels/cuda/cublas_handle.h"
#include "kernels/gemm.h"

namespace lt::kernels {

class MatmulSearch;

// Everything that determines how a matmul is computed.
struct Problem {
  std::array<Size, 12> sizes;  // M N K lda ldb ldd ld_c batch stride_a stride_b stride_d stride_c
  std::array<bool, 4> flags;   // transpose_a transpose_b tf32 one_scale
  Epilogue epilogue;
  DType dtype, out;
  std::array<std::uint32_t, 4> alignment;  // of a, b, c, d
  int device;
  bool pinned;

  auto operator<=>(const Problem&) const = default;
  // The matmul's name in tables; nullopt if tables do not name it: pinned, with gaps, a batch or unaligned arrays.
  std::optional<TableMatmul> in_table() const;
};

// Describes `g`; with `bias`, its bias is fused. `c` is the matrix that the matmul adds, or d.
Problem problem_of(CudaStream stream, const Gemm& g, bool bias, const void* c);
// Returns the largest power of two up to 128 that divides an address. Every allocation and every parameter has that
// alignment, so the shapes alone decide which algorithms may be used.
std::uint32_t alignment_of(const void* pointer);

// How a matmul is computed.
struct Choice {
  Algorithm algorithm;
  bool fused = true;  // the matmul does its epilogue; else a separate pass, and the algorithm is not used

  bool operator==(const Choice&) const = default;
};

// A matmul ready to launch: descriptions of the operation and its matrices, and the algorithm.
struct Prepared {
  explicit Prepared(const Problem& described) : problem(described) {}

  Problem problem;
  MatmulDescription operation;
  MatrixLayout a, b, c, d;
  Algorithm first;  // cuBLASLt's first proposal
  Choice choice;
};

// The matmuls of one device.
class Cublas {
 public:
  explicit Cublas(int device);

  static Cublas& of(int device);

  // Returns null if cuBLASLt has no algorithm for the problem.
  Prepared* prepare(const Problem& problem);
  // Launches d = alpha op(A) op(B) + beta c for `g`.
  void run(Prepared& p, const void* alpha, const void* beta, const Gemm& g, const void* c, CudaStream stream);
  // Runs the fused matmul or separate passes.
  void run_chosen(Prepared& p, const Gemm& g, CudaStream stream, const std::function<void()>& fused,
                  const std::function<void()>& passes);

  // Later matmuls use this table; nullopt: cuBLASLt's first proposals. No matmul may run at the same time.
  void use(std::optional<AlgorithmTable> table);
  const std::optional<AlgorithmTable>& table() const { return table_; }
  GpuKind gpu() const;

  // While it is not null, the search sees each call that can be repeated.
  void set_search(MatmulSearch* search) { search_ = search; }
  // Returns all algorithms that a search compares.
  std::vector<Algorithm> all_algorithms(const Prepared& p) const;

 private:
  std::unique_ptr<Prepared> make(const Problem& q) const;
  // Returns the table's choice if the device can compute it.
  std::optional<Choice> find(const Prepared& p) const;
  // Adds the algorithms that cuBLASLt proposes with or without a workspace, best first.
  void add_proposals(std::vector<Algorithm>& all, const Prepared& p, bool has_workspace) const;
  // Adds tile configurations if cuBLASLt proposes the algorithm that has them.
  void add_tiles(std::vector<Algorithm>& all, const Prepared& p) const;
  // Returns the bytes of workspace that an algorithm needs for the matmul; nullopt if it cannot compute it.
  std::optional<std::size_t> needed_workspace(const Prepared& p, const cublasLtMatmulAlgo_t& algorithm) const;

  int device_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::optional<AlgorithmTable> table_;
  std::map<Problem, std::unique_ptr<Prepared>> prepared_;
  MatmulSearch* search_ = nullptr;
};

}  // namespace lt::kernels
