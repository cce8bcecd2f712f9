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

TEST_CASE("cross_entropy with its gradient, z-loss, label smoothing and ignored targets", "[kernels]") {
  for (const DType dtype : kFloats) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const LossShape s : kLossShapes) {
      for (const LossTerms terms : {LossTerms{}, {0.01, 0.0}, {0.0, 0.25}, {0.01, 0.25}}) {
        INFO(dtype_name(dtype) << " " << s.R << " x " << s.C << " z " << terms.z_loss << " smoothing "
                               << terms.label_smoothing);
        const Size n = s.R * s.C;
        Array logits = random_array(dtype, n, 1, 10);
        auto targets = random_ids(s.R, s.C, 2);
        std::vector<double> lse_expected, losses_expected, of_logits(static_cast<std::size_t>(n));
        const std::vector<double> p = softmax_of(logits, s, &lse_expected);
        const auto at = [](Size i) { return static_cast<std::size_t>(i); };
        for (Size r = 0; r < s.R; ++r) {
          const double lse = lse_expected[at(r)], part = terms.label_smoothing / static_cast<double>(s.C);
          double loss = terms.z_loss * lse * lse;
          for (Size c = 0; c < s.C; ++c) {
            const double share = part + (targets[at(r)] == c ? 1 - terms.label_smoothing : 0);
            loss += share * (lse - logits[r * s.C + c]);
            of_logits[at(r * s.C + c)] = p[at(r * s.C + c)] * (1 + 2 * terms.z_loss * lse) - share;
          }
          losses_expected.push_back(loss);
        }
        const Size ignored = s.R / 2;  // not in a single row
        if (s.R > 1) {
          targets[at(ignored)] = kIgnoredTarget, lse_expected[at(ignored)] = losses_expected[at(ignored)] = 0;
          for (Size c = 0; c < s.C; ++c) of_logits[at(ignored * s.C + c)] = 0;
          logits.set(ignored * s.C, std::nan(""));
        }
        Array losses(sums, s.R), lse(sums, s.R);
        cross_entropy_forward(CpuStream{},
                              {dtype, s.R, s.C, losses.data(), lse.data(), logits.data(), targets.data(), terms});
        CHECK(error_of(lse, lse_expected) <= tolerance(sums));
        CHECK(error_of(losses, losses_expected) <= 2 * tolerance(sums));  // squares of lse, about 10

        Array d_loss(sums, 1);
        d_loss.set(0, 0.75);
        const float weight = 1.5f;
        for (const bool accumulate : {false, true}) {
          for (const bool given : {false, true}) {
            const Array dlogits_before = random_array(dtype, n, 3);
            std::vector<double> expected = dlogits_before.values();
            for (std::size_t i = 0; i < expected.size(); ++i) {
              expected[i] = (accumulate ? expected[i] : 0) + (given ? 0.75 * 1.5 : 1) * 2.0 * of_logits[i];
            }
            Array dlogits = copy_of(dlogits_before);
            CrossEntropyBackward call{.dtype = dtype,
                                      .M = s.R,
                                      .V = s.C,
                                      .dlogits_MV = dlogits.data(),
                                      .logits_MV = logits.data(),
                                      .lse_M = lse.data(),
                                      .targets_M = targets.data(),
                                      .d_loss = given ? d_loss.data() : nullptr,
                                      .weight = given ? &weight : nullptr,
                                      .scale = 2.0,
                                      .accumulate = accumulate,
                                      .terms = terms};
            cross_entropy_backward(CpuStream{}, call);
            CHECK(error_of(dlogits, expected) <= tolerance(dtype));
            if (accumulate) continue;
            Array in_place = copy_of(logits);
            call.dlogits_MV = in_place.data(), call.logits_MV = in_place.data();
            cross_entropy_backward(CpuStream{}, call);
            CHECK(in_place.same_bits(dlogits));
          }
        }
      }
    }
  }
}

TEST_CASE("target_weight: targets over counted targets, 0 if none counts", "[kernels]") {
  const std::vector<std::int32_t> targets{3, kIgnoredTarget, 0, kIgnoredTarget, kIgnoredTarget};
  float counts[2] = {}, weight = -1;
  count_targets(CpuStream{}, &counts[0], 1, targets.data(), 5);
  count_targets(CpuStream{}, &counts[1], 1, targets.data() + 1, 2);
  CHECK(counts[0] == 2);
  CHECK(counts[1] == 1);
  target_weight(CpuStream{}, &weight, counts, 2, 7);
  CHECK(weight == 7.0f / 3);
  count_targets(CpuStream{}, &counts[0], 1, targets.data() + 3, 2);
  target_weight(CpuStream{}, &weight, counts, 1, 2);
  CHECK(weight == 0);
  // f32 does not hold the number of targets.
  constexpr Size kMany = (Size{1} << 24) + 3;
  counts[0] = counts[1] = static_cast<float>(kMany);
  for (const Size ranks : {1, 2}) {
    target_weight(CpuStream{}, &weight, counts, ranks, all_targets(kMany, ranks));
    CHECK(weight == 1);
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
  cross_entropy_forward(CpuStream{}, {DType::f32, 2, C, losses.data(), lse.data(), x.data(), targets});
  CHECK(std::abs(losses[0] - std::log(24.0)) < 1e-6);
  CHECK(std::isnan(losses[1]));
  cross_entropy_backward(CpuStream{}, {.dtype = DType::f32,
                                       .M = 2,
                                       .V = C,
                                       .dlogits_MV = y.data(),
                                       .logits_MV = x.data(),
                                       .lse_M = lse.data(),
                                       .targets_M = targets,
                                       .d_loss = nullptr,
                                       .scale = 1.0});
  CHECK(y[1] == 0);
  CHECK(std::abs(y[3] - (1.0 / 24 - 1)) < 1e-6);
  CHECK(std::isnan(y[C]));
}
