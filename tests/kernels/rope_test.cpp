// Rotary embedding against the formula in f64; backward undoes forward.
#include "kernels/rope.h"

#include "kernels/documents.h"
#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "libtrain/device/device.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

struct RopeShape {
  Size B, T, heads, D, rest, first;
};
// `rest` elements of a row after the rotated heads. The last two: large positions, and a head of more than 128
// channels.
constexpr RopeShape kRopeShapes[] = {{1, 1, 1, 2, 0, 0},    {2, 5, 3, 6, 4, 0},       {3, 70, 6, 32, 64, 0},
                                     {2, 9, 2, 64, 64, 31}, {1, 40, 2, 128, 1, 8000}, {1, 3, 1, 192, 7, 65}};

// The formula as published with Llama 3.1, by wavelengths.
double scaled_rate(double rate, const RopeScaling& scaling) {
  if (scaling.kind == RopeScaling::Kind::none) return rate;
  const double wavelength = 2 * M_PI / rate;
  if (scaling.kind == RopeScaling::Kind::linear || wavelength > scaling.original / scaling.low)
    return rate / scaling.factor;
  if (wavelength < scaling.original / scaling.high) return rate;
  const double smooth = (scaling.original / wavelength - scaling.low) / (scaling.high - scaling.low);
  return (1 - smooth) * rate / scaling.factor + smooth * rate;
}

std::vector<double> reference(const Array& x, const RopeShape& s, double base, bool inverse,
                              const RopeScaling& scaling = {}) {
  std::vector<double> y = x.values();
  const Size row = s.heads * s.D + s.rest;
  for (Size r = 0; r < s.B * s.T; ++r) {
    for (Size h = 0; h < s.heads; ++h) {
      for (Size d = 0; d < s.D / 2; ++d) {
        const double angle =
            static_cast<double>(s.first + r % s.T) *
            scaled_rate(std::pow(base, -2.0 * static_cast<double>(d) / static_cast<double>(s.D)), scaling);
        const double c = std::cos(angle), n = inverse ? -std::sin(angle) : std::sin(angle);
        const Size low = r * row + h * s.D + d, high = low + s.D / 2;
        y[static_cast<std::size_t>(low)] = x[low] * c - x[high] * n;
        y[static_cast<std::size_t>(high)] = x[high] * c + x[low] * n;
      }
    }
  }
  return y;
}

}  // namespace

TEST_CASE("rope agrees with the formula, forward and back, in place and added", "[kernels]") {
  for (const DType dtype : kFloats) {
    for (const RopeShape& s : kRopeShapes) {
      const Size row = s.heads * s.D + s.rest, n = s.B * s.T * row;
      const double base = s.D == 64 ? 500000 : 10000;
      const Array x = random_array(dtype, n, 1);
      INFO(dtype_name(dtype) << " B " << s.B << " T " << s.T << " D " << s.D << " first " << s.first);
      for (const bool inverse : {false, true}) {
        const std::vector<double> expected = reference(x, s, base, inverse);
        Array y(dtype, n), in_place = copy_of(x), added = copy_of(x);
        rope(CpuStream{}, {dtype, s.B, s.T, row, s.heads, s.D, y.data(), x.data(), base, s.first, inverse, false});
        CHECK(error_of(y, expected) <= tolerance(dtype));
        rope(CpuStream{},
             {dtype, s.B, s.T, row, s.heads, s.D, in_place.data(), in_place.data(), base, s.first, inverse, false});
        CHECK(in_place.same_bits(y));
        rope(CpuStream{}, {dtype, s.B, s.T, row, s.heads, s.D, added.data(), x.data(), base, s.first, inverse, true});
        std::vector<double> sum = expected;
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[static_cast<Size>(i)];
        CHECK(error_of(added, sum) <= tolerance(dtype));
      }
    }
  }
}

TEST_CASE("rope: scaled positions, near the beginning and beyond the original length", "[kernels]") {
  const RopeScaling linear{RopeScaling::Kind::linear, 4}, llama3{RopeScaling::Kind::llama3, 8, 1, 4, 512};
  for (const RopeScaling& scaling : {linear, llama3}) {
    for (const RopeShape& s : {RopeShape{2, 9, 2, 64, 64, 31}, {1, 40, 2, 128, 1, 8000}}) {
      const Size row = s.heads * s.D + s.rest, n = s.B * s.T * row;
      const Array x = random_array(DType::f32, n, 1);
      Array y(DType::f32, n);
      rope(CpuStream{},
           {DType::f32, s.B, s.T, row, s.heads, s.D, y.data(), x.data(), 500000, s.first, false, false, scaling});
      CHECK(error_of(y, reference(x, s, 500000, false, scaling)) <= tolerance(DType::f32));
      CHECK(error_of(y, reference(x, s, 500000, false)) > 100 * tolerance(DType::f32));
    }
  }
}

TEST_CASE("rope: a position gives the same bits alone and in a sequence", "[kernels]") {
  const Size T = 77, D = 32;
  const Array x = random_array(DType::f32, T * D, 1);
  Array whole(DType::f32, T * D), alone(DType::f32, T * D);
  rope(CpuStream{}, {DType::f32, 1, T, D, 1, D, whole.data(), x.data(), 10000, 0, false, false});
  Array input = copy_of(x);
  for (Size t = 0; t < T; ++t) {
    rope(CpuStream{}, {DType::f32, 1, 1, D, 1, D, pointer<float>(alone) + t * D, pointer<float>(input) + t * D, 10000,
                       t, false, false});
  }
  CHECK(alone.same_bits(whole));
}

TEST_CASE("rope: each document has the bits that it has alone, forward and back", "[kernels]") {
  for (const RopeShape& s : {RopeShape{2, 75, 3, 32, 64, 0}, {1, 40, 1, 192, 7, 0}}) {
    const Size row = s.heads * s.D + s.rest, n = s.B * s.T * row;
    const auto starts = document_starts(s.B, s.T, {33, 1, 2, 40});
    for (const DType dtype : kFloats) {
      for (const bool inverse : {false, true}) {
        INFO(dtype_name(dtype) << " T " << s.T << " D " << s.D << " inverse " << inverse);
        Array x = random_array(dtype, n, 1), packed(dtype, n), alone(dtype, n);
        rope(CpuStream{}, {.dtype = dtype,
                           .B = s.B,
                           .T = s.T,
                           .row = row,
                           .heads = s.heads,
                           .D = s.D,
                           .y_BTrow = packed.data(),
                           .x_BTrow = x.data(),
                           .base = 10000,
                           .inverse = inverse,
                           .starts_BT = starts.data()});
        const auto at = [&](Array& array, Size token) {
          return static_cast<std::byte*>(array.data()) + token * row * dtype_bytes(dtype);
        };
        for (Size end, begin = 0; begin < s.B * s.T; begin = end) {
          const std::int32_t start = starts[static_cast<std::size_t>(begin)];
          CHECK(start == begin % s.T);
          for (end = begin + 1; end % s.T != 0 && starts[static_cast<std::size_t>(end)] == start;) ++end;
          rope(CpuStream{},
               {dtype, 1, end - begin, row, s.heads, s.D, at(alone, begin), at(x, begin), 10000, 0, inverse, false});
        }
        CHECK(packed.same_bits(alone));
      }
    }
  }
}
