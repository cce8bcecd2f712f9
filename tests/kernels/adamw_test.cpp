// AdamW against the formula in f64, the skip flag, and that a range may be cut anywhere to the same bits.
#include "kernels/adamw.h"

#include <omp.h>

#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

constexpr float kBeta1 = 0.9f, kBeta2 = 0.95f;
constexpr AdamWFactors kFactors{kBeta1, kBeta2, 1e-8f, 0.1f};

struct State {
  Array w, m, v, gradient, copy;

  explicit State(Size n)
      : w(random_array(DType::f32, n, 1)),
        m(random_array(DType::f32, n, 2, 0.1)),
        v(random_array(DType::f32, n, 3, 0.1)),
        gradient(random_array(DType::f32, n, 4)),
        copy(DType::bf16, n) {
    for (Size i = 0; i < n; ++i) v.set(i, std::abs(v[i]));
  }
  // Updates [begin, end) as a range of its own, of which the elements before `decayed` of the whole are decayed.
  void update(Size begin, Size end, Size decayed, const StepNumbers& numbers, bool with_copy = true) {
    const Size inside = std::min(std::max(decayed - begin, Size(0)), end - begin);
    adamw_update(CpuStream{},
                 {pointer<float>(w) + begin, pointer<float>(m) + begin, pointer<float>(v) + begin,
                  pointer<float>(gradient) + begin, with_copy ? pointer<bf16>(copy) + begin : nullptr, DType::bf16,
                  end - begin, inside},
                 kFactors, &numbers);
  }
  bool same_bits(const State& o) const {
    return w.same_bits(o.w) && m.same_bits(o.m) && v.same_bits(o.v) && copy.same_bits(o.copy);
  }
};

const StepNumbers kNumbers{.lr = 0.01f, .gradient_scale = 0.5f, .skip = 0, .bias = {0.19f, 0.0975f}};

}  // namespace

TEST_CASE("adamw_update agrees with the formula", "[kernels]") {
  for (const Size n : {Size(1), Size(63), Size(64), Size(200), Size(40007)}) {
    for (const Size decayed : {Size(0), n / 3, n}) {
      State s(n);
      std::vector<double> w = s.w.values(), m = s.m.values(), v = s.v.values();
      for (std::size_t i = 0; i < w.size(); ++i) {
        const double g = 0.5 * s.gradient[static_cast<Size>(i)];
        m[i] = 0.9 * m[i] + 0.1 * g, v[i] = 0.95 * v[i] + 0.05 * g * g;
        const double decay = static_cast<Size>(i) < decayed ? 0.1 : 0.0;
        w[i] -= 0.01 * (m[i] / 0.19 / (std::sqrt(v[i] / 0.0975) + 1e-8) + decay * w[i]);
      }
      s.update(0, n, decayed, kNumbers);
      CHECK(error_of(s.w, w) <= tolerance(DType::f32));
      CHECK(error_of(s.m, m) <= tolerance(DType::f32));
      CHECK(error_of(s.v, v) <= tolerance(DType::f32));
      Size wrong = 0;
      for (Size i = 0; i < n; ++i) wrong += s.copy[i] != static_cast<double>(bf16(static_cast<float>(s.w[i])));
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("adamw_update: a range cut anywhere, at any number of threads, gives the same bits", "[kernels]") {
  const Size n = 50021, decayed = 30011;
  State whole(n);
  whole.update(0, n, decayed, kNumbers);
  for (const Size piece : {Size(1), Size(3), Size(17), Size(64), Size(997), Size(33333)}) {
    State cut(n);
    for (Size i = 0; i < n; i += piece) cut.update(i, std::min(n, i + piece), decayed, kNumbers);
    INFO("pieces of " << piece);
    CHECK(cut.same_bits(whole));
  }
  const int threads = omp_get_max_threads();
  for (const int count : {1, 2, 3, 5}) {
    omp_set_num_threads(count);
    State s(n);
    s.update(0, n, decayed, kNumbers);
    CHECK(s.same_bits(whole));
  }
  omp_set_num_threads(threads);
  State bare(n);
  bare.update(0, n, decayed, kNumbers, false);
  CHECK(bare.w.same_bits(whole.w));
}

TEST_CASE("adamw_update leaves everything on skip, carries NaN, and refuses other copies", "[kernels]") {
  const Size n = 100;
  State s(n);
  const State before(n);
  StepNumbers skip = kNumbers;
  skip.skip = 1;
  s.update(0, n, n, skip);
  CHECK(s.same_bits(before));
  s.gradient.set(70, std::nan(""));
  s.update(0, n, n, kNumbers);
  Size not_numbers = 0;
  for (Size i = 0; i < n; ++i) not_numbers += std::isnan(s.w[i]);
  CHECK(not_numbers == 1);
  CHECK(std::isnan(s.copy[70]));
  const AdamWRange other{pointer<float>(s.w),
                         pointer<float>(s.m),
                         pointer<float>(s.v),
                         pointer<float>(s.gradient),
                         s.copy.data(),
                         DType::i32,
                         n,
                         n};
  CHECK_THROWS_AS(adamw_update(CpuStream{}, other, kFactors, &kNumbers), InternalError);
}

TEST_CASE("adamw_update: a copy in f16 is the rounded weight", "[kernels]") {
  const Size n = 1000;
  State s(n);
  Array copy(DType::f16, n);
  adamw_update(CpuStream{},
               {pointer<float>(s.w), pointer<float>(s.m), pointer<float>(s.v), pointer<float>(s.gradient), copy.data(),
                DType::f16, n, n},
               kFactors, &kNumbers);
  Size wrong = 0;
  for (Size i = 0; i < n; ++i) wrong += copy[i] != static_cast<double>(f16(static_cast<float>(s.w[i])));
  CHECK(wrong == 0);
}
