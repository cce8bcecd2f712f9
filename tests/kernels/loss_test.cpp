// Softmax and cross-entropy against f64 references, masked and large logits, NaN.
#include "kernels/loss.h"

#include "kernels/common.h"
#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

struct LossShape {
  Size R, C;
};
constexpr LossShape kLossShapes[] = {{1, 1}, {2, 3}, {5, 100}, {130, 256}, {3, 5003}};

std::vector<double> softmax_of(const Array& x, LossShape s, std::vector<double>* lse = nullptr) {
  std::vector<double> y = x.values();
  for (Size r = 0; r < s.R; ++r) {
    double* row = y.data() + r * s.C;
    const double most = *std::max_element(row, row + s.C);
    double sum = 0;
    for (Size c = 0; c < s.C; ++c) sum += std::exp(row[c] - most);
    for (Size c = 0; c < s.C; ++c) row[c] = std::exp(row[c] - most) / sum;
    if (lse) lse->push_back(most + std::log(sum));
  }
  return y;
}

}  // namespace

TEST_CASE("softmax with its gradient", "[kernels]") {
  for (const DType dtype : kFloats) {
    for (const LossShape s : kLossShapes) {
      INFO(dtype_name(dtype) << " " << s.R << " x " << s.C);
      const Size n = s.R * s.C;
      const Array x = random_array(dtype, n, 1, 10), dy = random_array(dtype, n, 2);
      Array y(dtype, n), in_place = copy_of(x);
      softmax_forward(CpuStream{}, dtype, y.data(), x.data(), s.R, s.C);
      CHECK(error_of(y, softmax_of(x, s)) <= tolerance(dtype));
      softmax_forward(CpuStream{}, dtype, in_place.data(), in_place.data(), s.R, s.C);
      CHECK(in_place.same_bits(y));
      for (const bool accumulate : {false, true}) {
        Array dx = random_array(dtype, n, 3);
        std::vector<double> expected = dx.values();
        for (Size r = 0; r < s.R; ++r) {
          double dot = 0;
          for (Size i = r * s.C; i < (r + 1) * s.C; ++i) dot += dy[i] * y[i];
          for (Size i = r * s.C; i < (r + 1) * s.C; ++i) {
            expected[static_cast<std::size_t>(i)] = (accumulate ? dx[i] : 0) + y[i] * (dy[i] - dot);
          }
        }
        softmax_backward(CpuStream{}, dtype, dx.data(), dy.data(), y.data(), s.R, s.C, accumulate);
        CHECK(error_of(dx, expected) <= tolerance(dtype));
      }
    }
  }
}

TEST_CASE("cross_entropy with its gradient", "[kernels]") {
  for (const DType dtype : kFloats) {
    const DType sums = gradient_dtype(dtype);
    for (const LossShape s : kLossShapes) {
      INFO(dtype_name(dtype) << " " << s.R << " x " << s.C);
      const Size n = s.R * s.C;
      const Array logits = random_array(dtype, n, 1, 10);
      const auto targets = random_ids(s.R, s.C, 2);
      std::vector<double> lse_expected, losses_expected;
      const std::vector<double> p = softmax_of(logits, s, &lse_expected);
      for (Size r = 0; r < s.R; ++r) {
        const std::size_t u = static_cast<std::size_t>(r);
        losses_expected.push_back(lse_expected[u] - logits[r * s.C + targets[u]]);
      }
      Array losses(sums, s.R), lse(sums, s.R);
      cross_entropy_forward(CpuStream{}, dtype, losses.data(), lse.data(), logits.data(), targets.data(), s.R, s.C);
      CHECK(error_of(lse, lse_expected) <= tolerance(sums));
      CHECK(error_of(losses, losses_expected) <= tolerance(sums));

      Array d_loss(sums, 1);
      d_loss.set(0, 0.75);
      for (const bool accumulate : {false, true}) {
        for (const bool given : {false, true}) {
          Array dlogits = random_array(dtype, n, 3);
          std::vector<double> expected = dlogits.values();
          for (Size i = 0; i < n; ++i) {
            const std::size_t u = static_cast<std::size_t>(i);
            const double hot = targets[static_cast<std::size_t>(i / s.C)] == i % s.C ? 1 : 0;
            expected[u] = (accumulate ? expected[u] : 0) + (given ? 0.75 : 1) * 2.0 * (p[u] - hot);
          }
          cross_entropy_backward(CpuStream{}, {dtype, s.R, s.C, dlogits.data(), logits.data(), lse.data(),
                                               targets.data(), given ? d_loss.data() : nullptr, 2.0, accumulate});
          CHECK(error_of(dlogits, expected) <= tolerance(dtype));
          if (accumulate) continue;
          Array in_place = copy_of(logits);
          cross_entropy_backward(CpuStream{}, {dtype, s.R, s.C, in_place.data(), in_place.data(), lse.data(),
                                               targets.data(), given ? d_loss.data() : nullptr, 2.0, false});
          CHECK(in_place.same_bits(dlogits));
        }
      }
    }
  }
}

TEST_CASE("masked logits get no probability, large ones no overflow, NaN is seen", "[kernels]") {
  const Size C = 70;
  Array x(DType::f32, 2 * C), y(DType::f32, 2 * C), losses(DType::f32, 2), lse(DType::f32, 2);
  for (Size i = 0; i < C; ++i) x.set(i, i % 3 ? -std::numeric_limits<double>::infinity() : 1e30);
  for (Size i = C; i < 2 * C; ++i) x.set(i, 1);
  x.set(2 * C - 1, std::nan(""));
  const std::int32_t targets[2] = {3, 3};
  softmax_forward(CpuStream{}, DType::f32, y.data(), x.data(), 2, C);
  for (Size i = 0; i < C; ++i) CHECK(std::abs(y[i] - (i % 3 ? 0.0 : 1.0 / 24)) <= (i % 3 ? 0 : 1e-7));
  for (Size i = C; i < 2 * C; ++i) CHECK(std::isnan(y[i]));
  for (Size i = 0; i < C; i += 3) x.set(i, 2);
  cross_entropy_forward(CpuStream{}, DType::f32, losses.data(), lse.data(), x.data(), targets, 2, C);
  CHECK(std::abs(losses[0] - std::log(24.0)) < 1e-6);
  CHECK(std::isnan(losses[1]));
  cross_entropy_backward(CpuStream{}, {DType::f32, 2, C, y.data(), x.data(), lse.data(), targets, nullptr, 1.0, false});
  CHECK(y[1] == 0);
  CHECK(std::abs(y[3] - (1.0 / 24 - 1)) < 1e-6);
  CHECK(std::isnan(y[C]));
}
