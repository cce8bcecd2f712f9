// LayerNorm and RMSNorm against f64 references of the same stored inputs.
#include "kernels/norm.h"

#include <omp.h>

#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "libtrain/device/device.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

struct NormShape {
  Size R, C;
};
constexpr NormShape kNormShapes[] = {{1, 1}, {1, 7}, {3, 33}, {65, 128}, {200, 100}, {1030, 67}};
constexpr float kNormEps = 1e-5f;

// The gradients of y = h w + b, h = (x - mean) rstd, by their formulas in f64; mean is 0 for RMSNorm.
struct NormReference {
  std::vector<double> y, dx, dw, db, mean, rstd;

  NormReference(bool centred, NormShape s, const Array& x, const Array& w, const Array* b, const Array& dy) {
    const std::size_t R = static_cast<std::size_t>(s.R), C = static_cast<std::size_t>(s.C);
    y.resize(R * C), dx.resize(R * C), dw.resize(C), db.resize(C), mean.resize(R), rstd.resize(R);
    for (std::size_t r = 0; r < R; ++r) {
      const auto at = [&](std::size_t c) { return static_cast<Size>(r * C + c); };
      const auto wc = [&](std::size_t c) { return w[static_cast<Size>(c)]; };
      double m = 0, v = 0, g = 0, gh = 0;
      for (std::size_t c = 0; c < C && centred; ++c) m += x[at(c)] / static_cast<double>(C);
      for (std::size_t c = 0; c < C; ++c) v += (x[at(c)] - m) * (x[at(c)] - m) / static_cast<double>(C);
      const double k = 1 / std::sqrt(v + static_cast<double>(kNormEps));
      mean[r] = m, rstd[r] = k;
      for (std::size_t c = 0; c < C; ++c) {
        const double h = (x[at(c)] - m) * k, d = dy[at(c)];
        y[r * C + c] = h * wc(c) + (b ? (*b)[static_cast<Size>(c)] : 0);
        dw[c] += d * h, db[c] += d;
        g += d * wc(c) / static_cast<double>(C), gh += d * wc(c) * h / static_cast<double>(C);
      }
      for (std::size_t c = 0; c < C; ++c) {
        const double h = (x[at(c)] - m) * k;
        dx[r * C + c] = k * (dy[at(c)] * wc(c) - (centred ? g : 0) - h * gh);
      }
    }
  }
};

std::vector<double> plus(std::vector<double> a, const std::vector<double>& b, bool accumulate) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += accumulate ? b[i] : 0;
  return a;
}

}  // namespace

TEST_CASE("layer_norm agrees with the reference", "[kernels]") {
  for (const DType dtype : kFloats) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const NormShape s : kNormShapes) {
      INFO(dtype_name(dtype) << " " << s.R << " x " << s.C);
      const Array x = random_array(dtype, s.R * s.C, 1, 2), w = random_array(dtype, s.C, 2);
      const Array b = random_array(dtype, s.C, 3), dy = random_array(dtype, s.R * s.C, 4);
      const NormReference with_bias(true, s, x, w, &b, dy), without(true, s, x, w, nullptr, dy);
      Array y(dtype, s.R * s.C), mean(sums, s.R), rstd(sums, s.R);
      layer_norm_forward(CpuStream{},
                         {dtype, s.R, s.C, y.data(), mean.data(), rstd.data(), x.data(), w.data(), nullptr, kNormEps});
      CHECK(error_of(y, without.y) <= tolerance(dtype));
      layer_norm_forward(CpuStream{},
                         {dtype, s.R, s.C, y.data(), mean.data(), rstd.data(), x.data(), w.data(), b.data(), kNormEps});
      CHECK(error_of(y, with_bias.y) <= tolerance(dtype));
      CHECK(error_of(mean, with_bias.mean) <= tolerance(sums));
      CHECK(error_of(rstd, with_bias.rstd) <= tolerance(sums));
      for (const bool accumulate : {false, true}) {
        Array dx = random_array(dtype, s.R * s.C, 5), dw = random_array(sums, s.C, 6), db = random_array(sums, s.C, 7);
        const auto dx_expected = plus(with_bias.dx, dx.values(), accumulate);
        const auto dw_expected = plus(with_bias.dw, dw.values(), accumulate);
        const auto db_expected = plus(with_bias.db, db.values(), accumulate);
        const auto backward = [&](void* to_x, void* to_w, void* to_b) {
          layer_norm_backward(CpuStream{}, {dtype, s.R, s.C, to_x, to_w, to_b, accumulate, accumulate, accumulate,
                                            dy.data(), x.data(), w.data(), mean.data(), rstd.data()});
        };
        const Array dx_before = copy_of(dx), dw_before = copy_of(dw);
        backward(dx.data(), dw.data(), db.data());
        CHECK(error_of(dx, dx_expected) <= tolerance(dtype));
        CHECK(error_of(dw, dw_expected) <= tolerance(sums));
        CHECK(error_of(db, db_expected) <= tolerance(sums));
        // Leaving an output out does not change the others.
        Array dx_alone = copy_of(dx_before), dw_alone = copy_of(dw_before);
        backward(dx_alone.data(), nullptr, nullptr);
        backward(nullptr, dw_alone.data(), nullptr);
        CHECK(error_of(dx_alone, dx.values()) <= tolerance(dtype));
        CHECK(dw_alone.same_bits(dw));
      }
    }
  }
}

TEST_CASE("rms_norm agrees with the reference", "[kernels]") {
  for (const DType dtype : kFloats) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const NormShape s : kNormShapes) {
      INFO(dtype_name(dtype) << " " << s.R << " x " << s.C);
      const Array x = random_array(dtype, s.R * s.C, 1, 2), w = random_array(dtype, s.C, 2);
      const Array dy = random_array(dtype, s.R * s.C, 4);
      const NormReference reference(false, s, x, w, nullptr, dy);
      Array y(dtype, s.R * s.C), rstd(sums, s.R);
      rms_norm_forward(CpuStream{}, {dtype, s.R, s.C, y.data(), rstd.data(), x.data(), w.data(), kNormEps});
      CHECK(error_of(y, reference.y) <= tolerance(dtype));
      CHECK(error_of(rstd, reference.rstd) <= tolerance(sums));
      for (const bool accumulate : {false, true}) {
        Array dx = random_array(dtype, s.R * s.C, 5), dw = random_array(sums, s.C, 6);
        const auto dx_expected = plus(reference.dx, dx.values(), accumulate);
        const auto dw_expected = plus(reference.dw, dw.values(), accumulate);
        rms_norm_backward(CpuStream{}, {dtype, s.R, s.C, dx.data(), dw.data(), accumulate, accumulate, dy.data(),
                                        x.data(), w.data(), rstd.data()});
        CHECK(error_of(dx, dx_expected) <= tolerance(dtype));
        CHECK(error_of(dw, dw_expected) <= tolerance(sums));
      }
    }
  }
}

TEST_CASE("norms: the same bits at every number of threads, and NaN stays in its row", "[kernels]") {
  const Size R = 1000, C = 96;
  Array x = random_array(DType::f32, R * C, 1);
  const Array w = random_array(DType::f32, C, 2), dy = random_array(DType::f32, R * C, 3);
  Array y(DType::f32, R * C), mean(DType::f32, R), rstd(DType::f32, R);
  layer_norm_forward(CpuStream{},
                     {DType::f32, R, C, y.data(), mean.data(), rstd.data(), x.data(), w.data(), nullptr, kNormEps});
  const int threads = omp_get_max_threads();
  std::vector<Array> results;
  for (const int count : {1, 3}) {
    omp_set_num_threads(count);
    Array out(DType::f32, R * C + 2 * C);
    float* const dx = pointer<float>(out);
    layer_norm_backward(CpuStream{}, {DType::f32, R, C, dx, dx + R * C, dx + R * C + C, false, false, false, dy.data(),
                                      x.data(), w.data(), mean.data(), rstd.data()});
    results.push_back(std::move(out));
  }
  omp_set_num_threads(threads);
  CHECK(results[0].same_bits(results[1]));

  x.set(5 * C + 90, std::nan(""));
  layer_norm_forward(CpuStream{},
                     {DType::f32, R, C, y.data(), mean.data(), rstd.data(), x.data(), w.data(), nullptr, kNormEps});
  Size not_numbers = 0;
  for (Size i = 0; i < R * C; ++i) not_numbers += std::isnan(y[i]);
  CHECK(not_numbers == C);
}
