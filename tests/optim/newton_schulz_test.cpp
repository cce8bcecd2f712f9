// The Newton-Schulz steps against their formula in f64, and their effect on singular values.
#include "optim/newton_schulz.h"

#include <cmath>
#include <string>
#include <vector>

#include "kernels/array.h"
#include "test_main/catch.h"
#include "test_main/worst_of.h"

using namespace lt;
using namespace lt::optim;

namespace {

// [rows, columns] in f64.
struct Matrix {
  Size rows, columns;
  std::vector<double> values = std::vector<double>(static_cast<std::size_t>(rows * columns));

  double& at(Size r, Size c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  double at(Size r, Size c) const { return values[static_cast<std::size_t>(r * columns + c)]; }
};

Matrix transposed(const Matrix& a) {
  Matrix t{a.columns, a.rows};
  for (Size r = 0; r < a.rows; ++r) {
    for (Size c = 0; c < a.columns; ++c) t.at(c, r) = a.at(r, c);
  }
  return t;
}

// Returns alpha a b + beta d.
Matrix matmul(const Matrix& a, const Matrix& b, double alpha = 1, double beta = 0, const Matrix& d = {0, 0}) {
  Matrix result{a.rows, b.columns};
  for (Size r = 0; r < a.rows; ++r) {
    for (Size c = 0; c < b.columns; ++c) {
      double sum = 0;
      for (Size k = 0; k < a.columns; ++k) sum += a.at(r, k) * b.at(k, c);
      result.at(r, c) = alpha * sum + (beta != 0 ? beta * d.at(r, c) : 0);
    }
  }
  return result;
}

// Whether the matrix has a Cholesky factor.
bool is_positive_definite(Matrix a) {
  for (Size k = 0; k < a.rows; ++k) {
    if (!(a.at(k, k) > 0)) return false;  // nor if it is NaN
    for (Size i = k + 1; i < a.rows; ++i) {
      for (Size j = k + 1; j < a.rows; ++j) a.at(i, j) -= a.at(i, k) * a.at(k, j) / a.at(k, k);
    }
  }
  return true;
}

// The formula of docs/explanation/numerics.md.
Matrix reference(Matrix x) {
  const bool tall = x.rows > x.columns;
  const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(x.rows, x.columns)));
  if (tall) x = transposed(x);
  double squares = 0;
  for (const double value : x.values) squares += value * value;
  for (double& value : x.values) value /= std::sqrt(squares) + 1e-7;
  for (int step = 0; step < 5; ++step) {
    const Matrix a = matmul(x, transposed(x));
    const Matrix polynomial = matmul(a, a, 2.0315, -4.7750, a);
    x = matmul(polynomial, x, 1, 3.4445, x);
  }
  for (double& value : x.values) value *= scale;
  return tall ? transposed(x) : x;
}

Tensor random(Size rows, Size columns, DType dtype) {
  const test::Array values = test::Array::random(dtype, rows * columns, 5);
  const Tensor wide = Tensor::from(values.values(), {rows, columns}), x = Tensor::empty({rows, columns}, dtype);
  copy(x, wide);
  return x;
}

void orthogonalise_all(const std::vector<Tensor>& x, const std::vector<MatrixStack>& stacks) {
  TransformLanes lanes;
  const auto bytes = orthogonalise_workspace_bytes(stacks, x[0].dtype());
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i].workspace = Tensor::empty({bytes[i]}, DType::u8);
  orthogonalise(x, stacks, lanes);
}
void orthogonalise_alone(const Tensor& x, const MatrixStack& stack) { orthogonalise_all({x}, {stack}); }

void check(const MatrixStack& stack, DType dtype, double tolerance) {
  Size rows = 0;
  for (const Size r : stack.rows) rows += r;
  const Tensor x = random(rows, stack.columns, dtype);
  const std::vector<double> before = x.to_vector<double>();
  orthogonalise_alone(x, stack);
  const std::vector<double> after = x.to_vector<double>();
  double worst = 0;
  std::size_t first = 0;
  for (const Size r : stack.rows) {
    Matrix matrix{r, stack.columns};
    for (std::size_t i = 0; i < matrix.values.size(); ++i) matrix.values[i] = before[first + i];
    const Matrix expected = reference(matrix);
    for (std::size_t i = 0; i < matrix.values.size(); ++i) {
      worst = lt_test::worst_of(worst, std::abs(after[first + i] - expected.values[i]));
    }
    first += matrix.values.size();
  }
  INFO(stack.rows.size() << " matrices, the first of " << stack.rows[0] << " x " << stack.columns << " in "
                         << dtype_name(dtype));
  CHECK(worst <= tolerance);
}

}  // namespace

TEST_CASE("orthogonalise: wide, tall and square matrices, alone and stacked, agree with f64", "[optim]") {
  for (const MatrixStack& stack : {MatrixStack{{1}, 1},
                                   {{8}, 8},
                                   {{5}, 19},
                                   {{23}, 4},
                                   {{12, 12, 12}, 12},
                                   {{16, 4, 4}, 16},
                                   {{21, 21}, 8},
                                   {{3, 9, 9, 3}, 7}}) {
    check(stack, DType::f32, 2e-5);   // values reach 0.2 sqrt(23); five steps amplify rounding, each by up to 3.4
    check(stack, DType::bf16, 0.06);  // each of fifteen matmuls rounds to eight bits
  }
}

TEST_CASE("orthogonalise: singular values come near 1, and zeros stay zeros", "[optim]") {
  const MatrixStack stack{{12}, 40};
  const Tensor x = random(12, 40, DType::f32);
  orthogonalise_alone(x, stack);
  Matrix o{12, 40, x.to_vector<double>()};
  for (double& value : o.values) value /= 0.2 * std::sqrt(40.0);
  // Five steps bring the singular values of a random matrix into [0.65, 1.25]. They are the roots of the Gram matrix's
  // eigenvalues.
  Matrix above = matmul(o, transposed(o)), below = above;
  for (double& value : below.values) value = -value;
  for (Size i = 0; i < 12; ++i) above.at(i, i) -= 0.65 * 0.65, below.at(i, i) += 1.25 * 1.25;
  CHECK(is_positive_definite(above));
  CHECK(is_positive_definite(below));
  fill_zero(x);
  orthogonalise_alone(x, stack);
  for (const double value : x.to_vector<double>()) CHECK(value == 0);
}

TEST_CASE("orthogonalise: a stack costs what its matrices cost", "[optim]") {
  const double one = orthogonalise_flops({{64}, 64});
  CHECK(one == 5 * 3 * 2.0 * 64 * 64 * 64);
  CHECK(orthogonalise_flops({{64, 64, 64}, 64}) == 3 * one);
  CHECK(orthogonalise_flops({{256}, 64}) == 5 * (2 * 2.0 * 64 * 64 * 256 + 2.0 * 64 * 64 * 64));
}

TEST_CASE("orthogonalise: the same bits alone and beside others", "[optim]") {
  const std::vector<MatrixStack> stacks = {{{12, 12}, 9}, {{5}, 19}, {{30}, 4}, {{8, 3}, 8}};
  std::vector<Tensor> alone, together;
  for (const MatrixStack& stack : stacks) {
    Size rows = 0;
    for (const Size r : stack.rows) rows += r;
    alone.push_back(random(rows, stack.columns, DType::bf16));
    together.push_back(random(rows, stack.columns, DType::bf16));
    orthogonalise_alone(alone.back(), stack);
  }
  orthogonalise_all(together, stacks);
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    CHECK(together[i].to_vector<double>() == alone[i].to_vector<double>());
  }
}
