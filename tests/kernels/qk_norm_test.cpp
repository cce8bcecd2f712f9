// QK-norm against rms_norm of each separate head.
#include "kernels/qk_norm.h"

#include "kernels/inputs.h"
#include "kernels/norm.h"
#include "kernels/tolerance.h"
#include "libtrain/device/device.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

// Copies `count` heads, starting at head `first`, one after another: [rows * count, D].
Array heads_of(const Array& packed, const QkNormShape& s, Size first, Size count) {
  Array heads(packed.dtype(), s.rows * count * s.D);
  for (Size i = 0; i < heads.count(); ++i) {
    heads.set(i, packed[i / (count * s.D) * s.row() + first * s.D + i % (count * s.D)]);
  }
  return heads;
}

}  // namespace

TEST_CASE("qk_norm agrees with rms_norm of each head", "[kernels]") {
  constexpr float kEps = 1e-5f;
  for (const DType dtype : kFloats) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const QkNormShape s : {QkNormShape{1, 1, 1, 1}, {5, 4, 2, 24}, {70, 3, 1, 33}, {40, 2, 2, 128}}) {
      CAPTURE(dtype_name(dtype), s.rows, s.H, s.G, s.D);
      const Array x = random_array(dtype, s.rows * s.row(), 1, 2), dy = random_array(dtype, s.rows * s.row(), 2);
      const Array wq = random_array(dtype, s.D, 3), wk = random_array(dtype, s.D, 4);
      Array y(dtype, x.count(), 99), rstd(sums, s.rows * s.heads(), 99), dx = copy_of(dy);
      Array dwq(sums, s.D, 0.5), dwk(sums, s.D, 99);
      qk_norm_forward(CpuStream{}, {dtype, s, y.data(), rstd.data(), x.data(), wq.data(), wk.data(), kEps});
      qk_norm_backward(CpuStream{}, {dtype, s, dx.data(), dwq.data(), dwk.data(), true, false, dx.data(), x.data(),
                                     wq.data(), wk.data(), rstd.data()});
      CHECK(heads_of(y, s, s.heads(), s.G).same_bits(heads_of(x, s, s.heads(), s.G)));
      CHECK(heads_of(dx, s, s.heads(), s.G).same_bits(heads_of(dy, s, s.heads(), s.G)));
      for (const bool keys : {false, true}) {
        const Size first = keys ? s.H : 0, count = keys ? s.G : s.H, R = s.rows * count;
        const Array &w = keys ? wk : wq, head_x = heads_of(x, s, first, count), head_dy = heads_of(dy, s, first, count);
        Array head_y(dtype, R * s.D), head_dx(dtype, R * s.D), dw(sums, s.D, 0.5), head_rstd(sums, R);
        rms_norm_forward(CpuStream{}, {dtype, R, s.D, head_y.data(), head_rstd.data(), head_x.data(), w.data(), kEps});
        rms_norm_backward(CpuStream{}, {dtype, R, s.D, head_dx.data(), dw.data(), false, !keys, head_dy.data(),
                                        head_x.data(), w.data(), head_rstd.data()});
        CHECK(error_of(heads_of(y, s, first, count), head_y.values()) <= tolerance(dtype));
        CHECK(error_of(heads_of(dx, s, first, count), head_dx.values()) <= tolerance(dtype));
        CHECK(error_of(keys ? dwk : dwq, dw.values()) <= tolerance(sums));
      }
    }
  }
}
