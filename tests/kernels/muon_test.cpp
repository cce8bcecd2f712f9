// Muon's elementwise kernels against their formulas in f64, the skip flag, and that a range may be cut anywhere.
#include "kernels/muon.h"

#include <cmath>

#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/worst_of.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

constexpr StepNumbers kMuonNumbers{.lr = 0.01f, .gradient_scale = 0.5f, .step = 7};
const RoundingSegments kMuonSegments{2, {{0, 16, 11}, {1000, 0, 12}}};

std::byte* element(Array& a, Size i) { return static_cast<std::byte*>(a.data()) + i * dtype_bytes(a.dtype()); }

// The segments of elements [begin, ...) of a range that has kMuonSegments.
RoundingSegments segments_from(Size begin) {
  if (begin < 1000) return {2, {{0, 16 + begin, 11}, {1000 - begin, 0, 12}}};
  return {1, {{0, begin - 1000, 12}}};
}

struct MuonState {
  Array w, momentum, gradient, direction, copy;

  MuonState(Size n, DType state, DType dtype)
      : w(random_array(state, n, 1)),
        momentum(random_array(state, n, 2)),
        gradient(random_array(DType::f32, n, 3)),
        direction(random_array(dtype, n, 4)),
        copy(DType::f16, n) {}

  void run(Size begin, Size end, const StepNumbers& numbers = kMuonNumbers) {
    const RoundingSegments segments = segments_from(begin);
    const bool wide = w.dtype() == DType::f32;
    muon_direction(CpuStream{},
                   {element(momentum, begin), momentum.dtype(), pointer<float>(gradient) + begin,
                    element(direction, begin), direction.dtype(), end - begin, &segments},
                   0.75f, &numbers);
    muon_update(CpuStream{},
                {element(w, begin), w.dtype(), element(direction, begin), direction.dtype(),
                 wide ? element(copy, begin) : nullptr, DType::f16, end - begin, &segments},
                0.1f, &numbers);
  }
  bool same_bits(const MuonState& o) const {
    return w.same_bits(o.w) && momentum.same_bits(o.momentum) && direction.same_bits(o.direction) &&
           copy.same_bits(o.copy);
  }
};

}  // namespace

TEST_CASE("muon: directions and updates agree with the formula", "[kernels]") {
  for (const DType state : {DType::f32, DType::bf16}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const Size n : {Size(1), Size(63), Size(200), Size(40007)}) {
        MuonState s(n, state, dtype);
        std::vector<double> w = s.w.values(), momentum = s.momentum.values(), direction = s.direction.values();
        s.run(0, n);
        double worst_w = 0;
        for (std::size_t i = 0; i < w.size(); ++i) {
          const double g = 0.5 * s.gradient[static_cast<Size>(i)];
          momentum[i] = 0.75 * momentum[i] + g;
          direction[i] = g + 0.75 * momentum[i];
          const double used = s.direction[static_cast<Size>(i)];
          worst_w = lt_test::worst_of(worst_w, std::abs(w[i] - 0.01 * (used + 0.1 * w[i]) - s.w[static_cast<Size>(i)]));
        }
        INFO(dtype_name(state) << " " << dtype_name(dtype) << " " << n);
        const double neighbour = state == DType::f32 ? tolerance(DType::f32) : 1.0 / 128;  // of numbers up to 2
        CHECK(error_of(s.momentum, momentum) <= neighbour);
        CHECK(error_of(s.direction, direction) <= tolerance(dtype));
        CHECK(worst_w <= neighbour);
        Size wrong = 0;
        for (Size i = 0; i < n; ++i) wrong += s.copy[i] != static_cast<double>(f16(static_cast<float>(s.w[i])));
        if (state == DType::f32) CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("muon: a range cut anywhere gives the same bits", "[kernels]") {
  const Size n = 5021;
  for (const DType state : {DType::f32, DType::bf16}) {
    MuonState whole(n, state, DType::bf16);
    whole.run(0, n);
    for (const Size piece : {Size(1), Size(17), Size(64), Size(997)}) {
      MuonState cut(n, state, DType::bf16);
      for (Size i = 0; i < n; i += piece) cut.run(i, std::min(n, i + piece));
      INFO(dtype_name(state) << " in pieces of " << piece);
      CHECK(cut.same_bits(whole));
    }
  }
}

TEST_CASE("muon: a suppressed step leaves momentum and weights, and other dtypes are refused", "[kernels]") {
  const Size n = 100;
  MuonState s(n, DType::f32, DType::bf16);
  const MuonState before(n, DType::f32, DType::bf16);
  StepNumbers skip = kMuonNumbers;
  skip.skip = 1;
  s.run(0, n, skip);
  CHECK(s.w.same_bits(before.w));
  CHECK(s.momentum.same_bits(before.momentum));
  CHECK(s.direction.same_bits(Array(DType::bf16, n)));
  CHECK_THROWS_AS(
      muon_update(CpuStream{}, {s.w.data(), DType::f32, s.direction.data(), DType::bf16, s.copy.data(), DType::i32, n},
                  0.1f, &kMuonNumbers),
      InternalError);
  const double squares = 1;
  CHECK_THROWS_AS(muon_normalise(CpuStream{}, DType::f16, s.copy.data(), s.copy.data(), n, &squares), InternalError);
}

TEST_CASE("add_to_diagonal adds there alone", "[kernels]") {
  const Size B = 3, N = 37;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Array x = random_array(dtype, B * N * N, 1);
    std::vector<double> expected = x.values();
    for (Size i = 0; i < B * N; ++i) expected[static_cast<std::size_t>(i / N * N * N + i % N * (N + 1))] += -1.25;
    add_to_diagonal(CpuStream{}, dtype, x.data(), B, N, -1.25f);
    CHECK(error_of(x, expected) <= tolerance(dtype));
  }
}

TEST_CASE("muon_normalise divides by the norm", "[kernels]") {
  const Size n = 3001;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Array x = random_array(dtype, n, 1, 3);
    Array y(dtype, n);
    const double squares = 7;
    muon_normalise(CpuStream{}, dtype, y.data(), x.data(), n, &squares);
    std::vector<double> expected = x.values();
    for (double& value : expected) value /= std::sqrt(7.0) + 1e-7;
    CHECK(error_of(y, expected) <= tolerance(dtype));
    const Array zero(dtype, n);
    const double none = 0;
    muon_normalise(CpuStream{}, dtype, y.data(), zero.data(), n, &none);
    CHECK(y.same_bits(zero));
  }
}
