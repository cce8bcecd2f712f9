// AdamW agrees with the formula in f64, honours the skip flag, and gives the same bits however a range is cut.
#include "kernels/adamw.h"

#include <omp.h>

#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/worst_of.h"

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
  // Updates [begin, end) as a separate range. Elements before index `decayed` of the whole array are decayed.
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

TEST_CASE("adamw_update: what bf16 holds is the f32 update, rounded to a neighbour", "[kernels]") {
  const Size n = 4096 + 37;
  const RoundingSegments segments{2, {{0, 16, 11}, {1000, 0, 12}}};
  for (const DType w_dtype : {DType::f32, DType::bf16}) {
    for (const DType state_dtype : {DType::f32, DType::bf16}) {
      const auto narrowed = [&](Array& values, DType dtype) {
        Array made(dtype, n);
        for (Size i = 0; i < n; ++i) made.set(i, values[i]);
        return made;
      };
      const auto run = [&](Array& w, Array& m, Array& v, Array& gradient, Size begin, Size end) {
        RoundingSegments cut = segments;  // relative to `begin`
        for (int k = 0; k < cut.count; ++k) cut.segments[k].begin -= begin;
        const auto at = [&](Array& array) {
          return static_cast<std::byte*>(array.data()) + begin * dtype_bytes(array.dtype());
        };
        AdamWRange range{at(w), at(m), at(v), pointer<float>(gradient) + begin, nullptr, DType::bf16, end - begin, 0};
        range.w_dtype = w.dtype(), range.state_dtype = m.dtype(), range.rounding = &cut;
        adamw_update(CpuStream{}, range, kFactors, &kNumbers);
      };
      State first(n);
      Array w = narrowed(first.w, w_dtype), m = narrowed(first.m, state_dtype), v = narrowed(first.v, state_dtype);
      Array w32 = narrowed(w, DType::f32), m32 = narrowed(m, DType::f32), v32 = narrowed(v, DType::f32);
      Array cut_w = narrowed(w, w_dtype), cut_m = narrowed(m, state_dtype), cut_v = narrowed(v, state_dtype);
      run(w, m, v, first.gradient, 0, n);
      run(w32, m32, v32, first.gradient, 0, n);
      // Neighbours in bf16 differ by 2^-7 of a value at most; over 4,133 roundings the errors cancel.
      double sum = 0, most = 0;
      const auto compare = [&](Array& found, Array& expected) {
        for (Size i = 0; i < n; ++i) {
          const double error = found[i] - expected[i], relative = error / std::max(std::abs(expected[i]), 1e-30);
          most = lt_test::worst_of(most, std::abs(relative)), sum += relative;
        }
      };
      compare(w, w32), compare(m, m32), compare(v, v32);
      INFO(dtype_name(w_dtype) << " " << dtype_name(state_dtype));
      CHECK(most <= 0x1p-7);
      CHECK(std::abs(sum) / static_cast<double>(3 * n) < 1e-4);
      const bool is_exact = w_dtype == DType::f32 && state_dtype == DType::f32;
      CHECK((most == 0) == is_exact);
      for (Size begin = 0; begin < n; begin += 701)
        run(cut_w, cut_m, cut_v, first.gradient, begin, std::min(n, begin + 701));
      CHECK(cut_w.same_bits(w));
      CHECK(cut_m.same_bits(m));
      CHECK(cut_v.same_bits(v));
    }
  }
}

TEST_CASE("adamw_update: a moment in bf16 keeps what rounding to nearest would lose", "[kernels]") {
  const Size n = 4096;
  const AdamWFactors slow{0.9f, 0.999f, 1e-8f, 0.0f};  // v closes a thousandth of its gap, bf16's spacing is 1/128
  Array w(DType::f32, n), m(DType::f32, n, 0), v(DType::bf16, n, 0), gradient(DType::f32, n, 1), m16(DType::bf16, n, 0);
  const RoundingSegments segments{1, {{0, 0, 5}}};
  StepNumbers numbers{.lr = 0, .gradient_scale = 1, .skip = 0, .bias = {1, 1}};
  for (numbers.step = 1; numbers.step <= 2000; ++numbers.step) {
    AdamWRange range{w.data(), m16.data(), v.data(), pointer<float>(gradient), nullptr, DType::bf16, n, 0};
    range.state_dtype = DType::bf16, range.rounding = &segments;
    adamw_update(CpuStream{}, range, slow, &numbers);
  }
  double mean = 0;
  for (Size i = 0; i < n; ++i) mean += v[i] / static_cast<double>(n);
  CHECK(mean == Approx(1 - std::pow(0.999, 2000)).epsilon(0.01));
}
