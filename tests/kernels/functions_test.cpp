// Elementwise functions, gather, cumulative sum, selection, quotient, maximum and comparisons against their formulas in
// f64.
#include "kernels/functions.h"

#include <limits>

#include "kernels/elementwise.h"
#include "kernels/gather.h"
#include "kernels/inputs.h"
#include "kernels/reduce.h"
#include "kernels/tolerance.h"
#include "libtrain/device/device.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

struct Formula {
  ElementFunction f;
  double (*value)(double);
  double (*derivative)(double);
};
const Formula kFormulas[] = {
    {ElementFunction::exp, [](double x) { return std::exp(x); }, [](double x) { return std::exp(x); }},
    {ElementFunction::log, [](double x) { return std::log(x); }, [](double x) { return 1 / x; }},
    {ElementFunction::sqrt, [](double x) { return std::sqrt(x); }, [](double x) { return 0.5 / std::sqrt(x); }},
    {ElementFunction::tanh, [](double x) { return std::tanh(x); },
     [](double x) { return 1 - std::tanh(x) * std::tanh(x); }},
    {ElementFunction::relu, [](double x) { return x > 0 ? x : 0; }, [](double x) { return x > 0 ? 1.0 : 0.0; }},
    {ElementFunction::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); },
     [](double x) { return std::exp(-x) / ((1 + std::exp(-x)) * (1 + std::exp(-x))); }},
};

}  // namespace

TEST_CASE("elementwise functions agree with their formulas, in place and added", "[kernels]") {
  for (const DType dtype : kFloats) {
    for (const Formula& formula : kFormulas) {
      for (const Size N : {Size{0}, Size{1}, Size{33}, Size{1000}}) {
        CAPTURE(dtype_name(dtype), static_cast<int>(formula.f), N);
        Array x = random_array(dtype, N, 1, 2), dy = random_array(dtype, N, 2);
        const bool positive = formula.f == ElementFunction::log || formula.f == ElementFunction::sqrt;
        for (Size i = 0; i < N && positive; ++i) x.set(i, 0.25 + std::fabs(x[i]));
        std::vector<double> value, gradient, sum;
        for (Size i = 0; i < N; ++i) {
          value.push_back(formula.value(x[i])), gradient.push_back(dy[i] * formula.derivative(x[i]));
          sum.push_back(x[i] + gradient.back());
        }
        Array y(dtype, N, 99), in_place = copy_of(x), dx = copy_of(dy), added = copy_of(x);
        function_forward(CpuStream{}, formula.f, dtype, y.data(), x.data(), N);
        CHECK(error_of(y, value) <= tolerance(dtype));
        function_forward(CpuStream{}, formula.f, dtype, in_place.data(), in_place.data(), N);
        CHECK(in_place.same_bits(y));
        function_backward(CpuStream{}, formula.f, dtype, added.data(), dy.data(), x.data(), N, true);
        CHECK(error_of(added, sum) <= tolerance(dtype));
        function_backward(CpuStream{}, formula.f, dtype, dx.data(), dx.data(), x.data(), N, false);
        CHECK(error_of(dx, gradient) <= tolerance(dtype));
      }
    }
  }
}

TEST_CASE("functions of an element and a number agree with their formulas, in place and added", "[kernels]") {
  using Formula = double (*)(double x, double c);
  const struct {
    NumberFunction f;
    double c;
    Formula value, derivative;
  } formulas[] = {
      {NumberFunction::add, 0.3, [](double x, double c) { return x + c; }, [](double, double) { return 1.0; }},
      {NumberFunction::subtract_by, 0.3, [](double x, double c) { return c - x; }, [](double, double) { return -1.0; }},
      {NumberFunction::divide, 0.3, [](double x, double c) { return x / c; }, [](double, double c) { return 1 / c; }},
      {NumberFunction::divide_by, 0.3, [](double x, double c) { return c / x; },
       [](double x, double c) { return -c / (x * x); }},
      {NumberFunction::power, 2.5, [](double x, double c) { return std::pow(x, c); },
       [](double x, double c) { return c * std::pow(x, c - 1); }},
      {NumberFunction::power, 2, [](double x, double) { return x * x; }, [](double x, double) { return 2 * x; }},
  };
  for (const DType dtype : kFloats) {
    for (const auto& formula : formulas) {
      for (const Size N : {Size{0}, Size{1}, Size{33}, Size{1000}}) {
        CAPTURE(dtype_name(dtype), static_cast<int>(formula.f), formula.c, N);
        const double c = dtype == DType::f64 ? formula.c : static_cast<double>(static_cast<float>(formula.c));
        Array x = random_array(dtype, N, 1, 2), dy = random_array(dtype, N, 2);
        for (Size i = 0; i < N; ++i) x.set(i, 0.5 + std::fabs(x[i]));
        std::vector<double> value, gradient, sum;
        for (Size i = 0; i < N; ++i) {
          value.push_back(formula.value(x[i], c)), gradient.push_back(dy[i] * formula.derivative(x[i], c));
          sum.push_back(x[i] + gradient.back());
        }
        Array y(dtype, N, 99), in_place = copy_of(x), dx = copy_of(dy), added = copy_of(x);
        number_function_forward(CpuStream{}, formula.f, dtype, y.data(), x.data(), formula.c, N);
        CHECK(error_of(y, value) <= tolerance(dtype));
        number_function_forward(CpuStream{}, formula.f, dtype, in_place.data(), in_place.data(), formula.c, N);
        CHECK(in_place.same_bits(y));
        const void* const input = gradient_needs_input(formula.f) ? x.data() : nullptr;
        number_function_backward(CpuStream{}, {formula.f, dtype, added.data(), dy.data(), input, formula.c, N, true});
        CHECK(error_of(added, sum) <= tolerance(dtype));
        number_function_backward(CpuStream{}, {formula.f, dtype, dx.data(), dx.data(), input, formula.c, N, false});
        CHECK(error_of(dx, gradient) <= tolerance(dtype));
      }
    }
  }
}

TEST_CASE("comparisons give a value for each relation, in any layout and with a number", "[kernels]") {
  const Comparison relation{10, 20, 30, 40};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double of_a[] = {1, 2, 3, nan, 1, 2}, of_b[] = {2, 2, 2, 1, nan, nan};
  const Strided flat{1, {6}, {1}, {1}, {1}};
  const Strided table{2, {3, 2}, {1, 3}, {2, 1}, {0, 1}};  // the result is transposed, b has one row
  std::vector<std::int32_t> y(6);
  for (const DType dtype : kFloats) {
    CAPTURE(dtype_name(dtype));
    Array a(dtype, 6), b(dtype, 6);
    for (Size i = 0; i < 6; ++i) a.set(i, of_a[i]), b.set(i, of_b[i]);
    compare(CpuStream{}, relation, dtype, flat, y.data(), a.data(), b.data(), 0);
    CHECK(y == std::vector<std::int32_t>{10, 20, 30, 40, 40, 40});
    compare(CpuStream{}, relation, dtype, flat, y.data(), a.data(), nullptr, 2);
    CHECK(y == std::vector<std::int32_t>{10, 20, 30, 40, 10, 20});
    compare(CpuStream{}, relation, dtype, table, y.data(), a.data(), b.data(), 0);  // a: (1 2) (3 NaN) (1 2), b: 2 2
    CHECK(y == std::vector<std::int32_t>{10, 30, 10, 20, 40, 20});
  }
  const std::int32_t left[] = {1, 16777217, -5}, right[] = {1, 16777216, 7};
  y.resize(3);
  const Strided three{1, {3}, {1}, {1}, {1}};
  compare(CpuStream{}, relation, DType::i32, three, y.data(), left, right, 0);
  CHECK(y == std::vector<std::int32_t>{20, 30, 10});
  compare(CpuStream{}, relation, DType::i32, three, y.data(), left, nullptr, 16777216);
  CHECK(y == std::vector<std::int32_t>{10, 30, 10});
}

TEST_CASE("gather, its gradient and cumulative sums agree with their formulas", "[kernels]") {
  for (const DType dtype : kFloats) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const MiddleShape m : {MiddleShape{1, 1, 1}, MiddleShape{3, 5, 7}, MiddleShape{2, 9, 1}}) {
      const Size K = 4, picked = m.O * K * m.I, n = m.O * m.R * m.I;
      const std::vector<std::int32_t> index = random_ids(picked, m.R, 3);
      const Array x = random_array(dtype, n, 1), dy = random_array(dtype, picked, 2), before = random_array(sums, n, 4);
      std::vector<double> y, dx = before.values(), grown(static_cast<std::size_t>(n)), back = grown;
      for (Size at = 0; at < picked; ++at) {
        const Size from = (at / (K * m.I) * m.R + index[static_cast<std::size_t>(at)]) * m.I + at % m.I;
        y.push_back(x[from]), dx[static_cast<std::size_t>(from)] += dy[at];
      }
      for (Size column = 0; column < m.O * m.I; ++column) {
        double sum = 0, reverse = 0;
        for (Size r = 0; r < m.R; ++r) {
          const Size first = column / m.I * m.R * m.I + column % m.I, at = first + r * m.I,
                     last = first + (m.R - 1 - r) * m.I;
          grown[static_cast<std::size_t>(at)] = sum += x[at], back[static_cast<std::size_t>(last)] = reverse += x[last];
        }
      }
      CAPTURE(dtype_name(dtype), m.O, m.R, m.I);
      Array out(dtype, picked, 99), gradient = copy_of(before), total(dtype, n, 99);
      gather(CpuStream{}, dtype, out.data(), x.data(), index.data(), m, K);
      CHECK(error_of(out, y) == 0);
      gather_backward(CpuStream{}, dtype, gradient.data(), true, dy.data(), index.data(), m, K);
      CHECK(error_of(gradient, dx) <= tolerance(sums));
      cumulative_sum(CpuStream{}, dtype, total.data(), x.data(), m, false, false);
      CHECK(error_of(total, grown) <= tolerance(dtype));
      cumulative_sum(CpuStream{}, dtype, total.data(), x.data(), m, true, false);
      CHECK(error_of(total, back) <= tolerance(dtype));
    }
  }
}

TEST_CASE("select takes nulls for zeros; maximum passes NaN on, and shares the gradient of equals", "[kernels]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : kFloats) {
    CAPTURE(dtype_name(dtype));
    Array a(dtype, 4), b(dtype, 4), y(dtype, 4, 99), share(dtype, 4, 2);
    const double of_a[] = {1, 2, nan, 4}, of_b[] = {2, 2, 1, nan};
    for (Size i = 0; i < 4; ++i) a.set(i, of_a[i]), b.set(i, of_b[i]);
    const std::int32_t condition[] = {1, 0, 0, -5};
    select(CpuStream{}, dtype, y.data(), condition, nullptr, b.data(), 2);
    CHECK((y[0] == 0 && y[1] == 2));
    select(CpuStream{}, dtype, y.data(), condition, a.data(), nullptr, 4);
    CHECK((y[0] == 1 && y[1] == 0 && y[2] == 0 && y[3] == 4));
    const Strided flat{1, {4}, {1}, {1}, {1}};
    maximum(CpuStream{}, dtype, flat, y.data(), a.data(), b.data());
    CHECK((y[0] == 2 && y[1] == 2 && std::isnan(y[2]) && std::isnan(y[3])));
    maximum_backward(CpuStream{}, dtype, flat, share.data(), a.data(), b.data());
    CHECK((share[0] == 0 && share[1] == 1));
    divide(CpuStream{}, dtype, flat, y.data(), a.data(), b.data());
    CHECK((y[0] == 0.5 && y[1] == 1));
  }
}
