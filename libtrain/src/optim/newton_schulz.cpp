// Computes Newton-Schulz steps as batched matmuls. Neighbouring matrices of one shape form a batch.
#include "optim/newton_schulz.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "kernels/gemm.h"
#include "kernels/muon.h"
#include "kernels/reduce.h"
#include "optim/least_loaded.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"

namespace lt::optim {
namespace {

constexpr int kSteps = 5;
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;
constexpr Size kAlignment = 256;  // bytes

Size aligned(Size bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// `count` matrices of `rows` rows each, starting at row `first` of the stack.
struct EqualMatrices {
  Size first, rows, count, columns;

  Size elements() const { return rows * columns; }
  Size side() const { return std::min(rows, columns); }  // side of A
  Size long_side() const { return std::max(rows, columns); }
};

std::vector<EqualMatrices> equal_matrices(const MatrixStack& stack) {
  std::vector<EqualMatrices> runs;
  Size row = 0;
  for (const Size rows : stack.rows) {
    if (runs.empty() || runs.back().rows != rows) runs.push_back({row, rows, 0, stack.columns});
    ++runs.back().count;
    row += rows;
  }
  return runs;
}

double flops_of(const EqualMatrices& run) {
  const auto n = static_cast<double>(run.side()), k = static_cast<double>(run.long_side());
  return static_cast<double>(run.count) * kSteps * (2 * n * n * k + 2 * n * n * n + 2 * n * n * k);
}

// Where a run's working arrays lie in a lane's workspace, as byte offsets: the second X at 0, A + d, a + b A + c A^2
// and the sums of squares. `bytes` is their total size.
struct Offsets {
  Size gram, polynomial, squares, bytes;

  Offsets(const EqualMatrices& run, DType dtype) {
    const Size square = aligned(run.count * run.side() * run.side() * dtype_bytes(dtype));
    gram = aligned(run.count * run.elements() * dtype_bytes(dtype));
    polynomial = gram + square;
    squares = polynomial + square;
    bytes = squares + aligned((1 + kernels::sum_blocks(run.elements())) * static_cast<Size>(sizeof(double)));
  }
};

// Assigns the stacks to lanes, and gives the size of each lane's workspace.
struct Shares {
  std::array<std::vector<std::size_t>, kTransformLanes> stacks;
  std::array<Size, kTransformLanes> workspace_bytes{};

  Shares(std::span<const MatrixStack> all, DType dtype) {
    std::vector<double> flops;
    for (const MatrixStack& stack : all) flops.push_back(orthogonalise_flops(stack));
    const std::vector<int> lanes = LeastLoaded(kTransformLanes).assign(flops);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto lane = static_cast<std::size_t>(lanes[i]);
      stacks[lane].push_back(i);
      for (const EqualMatrices& run : equal_matrices(all[i])) {
        workspace_bytes[lane] = std::max(workspace_bytes[lane], Offsets(run, dtype).bytes);
      }
    }
  }
};

template <class S>
class Steps {
 public:
  Steps(S stream, const EqualMatrices& run, DType dtype)
      : stream_(stream), run_(run), is_wide_(run.rows <= run.columns) {
    matmul_.dtype = matmul_.out = dtype;
    matmul_.pinned = true;
    matmul_.settings = Context::current().kernels;
    matmul_.batch = run.count;
  }

  // y = factor (a + b A + c A^2) x. With d = b / 2c that equals (c (A + d)^2 + a - c d^2) x. Adding numbers to a
  // diagonal is cheaper than adding matrices.
  void step(void* y, const void* x, void* gram, void* polynomial, float factor) const {
    constexpr float kShift = kB / (2 * kC);
    const Size n = run_.side(), of_x = run_.elements(), of_a = n * n;
    kernels::Gemm a = matmul_;
    a.M = a.N = n, a.K = run_.long_side();
    a.a = a.b = x, a.d = gram;
    (is_wide_ ? a.transpose_b : a.transpose_a) = true;
    a.stride_a = a.stride_b = of_x, a.stride_d = of_a;
    kernels::gemm(stream_, a);
    kernels::add_to_diagonal(stream_, a.out, gram, run_.count, n, kShift);

    kernels::Gemm p = matmul_;
    p.M = p.N = p.K = n;
    p.a = p.b = gram, p.d = polynomial;
    p.alpha = kC;
    p.stride_a = p.stride_b = p.stride_d = of_a;
    kernels::gemm(stream_, p);
    kernels::add_to_diagonal(stream_, p.out, polynomial, run_.count, n, kA - kC * kShift * kShift);

    kernels::Gemm next = matmul_;
    next.M = run_.rows, next.N = run_.columns, next.K = n;
    next.a = is_wide_ ? polynomial : x, next.b = is_wide_ ? x : polynomial;
    next.d = y;
    next.alpha = factor;
    next.stride_a = is_wide_ ? of_a : of_x, next.stride_b = is_wide_ ? of_x : of_a;
    next.stride_d = of_x;
    kernels::gemm(stream_, next);
  }

 private:
  S stream_;
  EqualMatrices run_;
  bool is_wide_;
  kernels::Gemm matmul_;
};

// Transforms the run's matrices in place; `x` points at the first.
template <class S>
void transform(S stream, const EqualMatrices& run, DType dtype, std::byte* x, std::byte* workspace) {
  const Offsets at(run, dtype);
  const Size bytes = run.elements() * dtype_bytes(dtype);
  auto* const squares = reinterpret_cast<double*>(workspace + at.squares);
  for (Size i = 0; i < run.count; ++i) {
    kernels::sum_squares(stream, dtype, squares, x + i * bytes, run.elements(), squares + 1);
    kernels::muon_normalise(stream, dtype, workspace + i * bytes, x + i * bytes, run.elements(), squares);
  }
  const float scale = 0.2f * std::sqrt(static_cast<float>(run.long_side()));
  const Steps steps(stream, run, dtype);
  std::byte *from = workspace, *to = x;
  for (int i = 0; i < kSteps; ++i, std::swap(from, to)) {
    steps.step(to, from, workspace + at.gram, workspace + at.polynomial, i + 1 == kSteps ? scale : 1.0f);
  }
  static_assert(kSteps % 2 == 1);  // so the last step writes to x
}

}  // namespace

void orthogonalise(std::span<const Tensor> directions, std::span<const MatrixStack> stacks,
                   const TransformLanes& lanes) {
  if (directions.empty()) return;
  const DType dtype = directions[0].dtype();
  const Shares shares(stacks, dtype);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    for (const std::size_t i : shares.stacks[lane]) {
      profile::count_matmuls(orthogonalise_flops(stacks[i]));
      profile::count_traffic(3 * directions[i].bytes());  // two reads and one write before the matmuls
      tensor::dispatch(lanes[lane].stream, [&](auto stream) {
        for (const EqualMatrices& run : equal_matrices(stacks[i])) {
          transform(stream, run, dtype,
                    static_cast<std::byte*>(directions[i].data()) + run.first * run.columns * dtype_bytes(dtype),
                    static_cast<std::byte*>(lanes[lane].workspace.data()));
        }
      });
    }
  }
}

std::array<Size, kTransformLanes> orthogonalise_workspace_bytes(std::span<const MatrixStack> stacks, DType dtype) {
  return Shares(stacks, dtype).workspace_bytes;
}

double orthogonalise_flops(const MatrixStack& stack) {
  double flops = 0;
  for (const EqualMatrices& run : equal_matrices(stack)) flops += flops_of(run);
  return flops;
}

}  // namespace lt::optim
