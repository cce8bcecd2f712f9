// Kernels over rows: norms and activations.
#include <fmt/format.h>

#include "bench/kernel_case.h"
#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "tensor/dispatch.h"

namespace lt::bench {
namespace {

constexpr float kEps = 1e-5f;

// Shared by the norms: R rows of C channels, with statistics and gradients of parameters in f32.
struct NormArrays {
  Tensor x, dy, out, w, b, mean, rstd, dw, db;  // out: y or dx

  NormArrays(Size R, Size C, DType dtype, Device device)
      : x(random_values({R, C}, dtype, device)),
        dy(random_values({R, C}, dtype, device)),
        out(random_values({R, C}, dtype, device)),
        w(random_values({C}, dtype, device)),
        b(random_values({C}, dtype, device)),
        mean(Tensor::zeros({R}, DType::f32, device)),
        rstd(Tensor::empty({R}, DType::f32, device)),
        dw(Tensor::empty({C}, DType::f32, device)),
        db(Tensor::empty({C}, DType::f32, device)) {
    fill(rstd, 1);
  }
};

// `launch(stream, arrays)` calls the kernel. footprint: KernelCase's.
template <class Launch>
KernelCase norm_case(const char* name, Size R, Size C, DType dtype, Device device, Size flops, Size bytes,
                     Size footprint, Launch launch) {
  KernelCase made{name, fmt::format("R={} C={}", R, C), dtype, Work::elementwise, flops * R * C, bytes, [=] {
                    const NormArrays arrays(R, C, dtype, device);
                    return PreparedKernel{[=] { tensor::dispatch(device, [&](auto s) { launch(s, arrays); }); }};
                  }};
  made.footprint = footprint;
  return made;
}

void add_norms(KernelCases& cases, Size R, Size C, DType dtype, Device device) {
  const Size e = dtype_bytes(dtype), array = R * C * e, row = C * e, statistics = R * 4, sums = C * 4;
  const auto add = [&](const char* name, Size flops, Size bytes, Size footprint, auto launch) {
    cases.push_back(norm_case(name, R, C, dtype, device, flops, bytes, footprint, launch));
  };
  add("layer_norm.forward", 8, 2 * array + 2 * row + 2 * statistics, 0, [=](auto s, const NormArrays& a) {
    kernels::layer_norm_forward(
        s, {dtype, R, C, a.out.data(), a.mean.data(), a.rstd.data(), a.x.data(), a.w.data(), a.b.data(), kEps});
  });
  // As in a model, dx is added to the gradient of the residual stream, which is read and written.
  const Size layer_bytes = 4 * array + row + 2 * sums + 2 * statistics, rms_bytes = 4 * array + row + sums + statistics;
  add("layer_norm.backward", 16, layer_bytes, layer_bytes - array, [=](auto s, const NormArrays& a) {
    kernels::layer_norm_backward(s, {dtype, R, C, a.out.data(), a.dw.data(), a.db.data(), true, false, false,
                                     a.dy.data(), a.x.data(), a.w.data(), a.mean.data(), a.rstd.data()});
  });
  add("rms_norm.forward", 4, 2 * array + row + statistics, 0, [=](auto s, const NormArrays& a) {
    kernels::rms_norm_forward(s, {dtype, R, C, a.out.data(), a.rstd.data(), a.x.data(), a.w.data(), kEps});
  });
  add("rms_norm.backward", 11, rms_bytes, rms_bytes - array, [=](auto s, const NormArrays& a) {
    kernels::rms_norm_backward(
        s, {dtype, R, C, a.out.data(), a.dw.data(), true, false, a.dy.data(), a.x.data(), a.w.data(), a.rstd.data()});
  });
}

struct ActivationArrays {
  Tensor x, dy, out;  // out: y or dx
};

// An activation of R x F values from `inputs` arrays of that size. Backward, it also reads dy and writes one array per
// input.
template <class Launch>
KernelCase activation_case(const char* name, Size R, Size F, DType dtype, Device device, Size flops, Size inputs,
                           bool backward, Launch launch) {
  const Size passes = backward ? 2 * inputs + 1 : inputs + 1;
  return {name,
          fmt::format("R={} F={}", R, F),
          dtype,
          Work::elementwise,
          flops * R * F,
          passes * R * F * dtype_bytes(dtype),
          [=] {
            const ActivationArrays arrays{random_values({R, inputs * F}, dtype, device),
                                          random_values({R, F}, dtype, device),
                                          Tensor::empty({R, (backward ? inputs : 1) * F}, dtype, device)};
            return PreparedKernel{[=] { tensor::dispatch(device, [&](auto s) { launch(s, arrays); }); }};
          }};
}

void add_activations(KernelCases& cases, Size R, Size F, DType dtype, Device device) {
  const auto add = [&](const char* name, Size flops, Size inputs, bool backward, auto launch) {
    cases.push_back(activation_case(name, R, F, dtype, device, flops, inputs, backward, launch));
  };
  using Arrays = ActivationArrays;
  add("gelu.forward", 9, 1, false,
      [=](auto s, const Arrays& a) { kernels::gelu_forward(s, dtype, a.out.data(), a.x.data(), R * F); });
  add("gelu.backward", 17, 1, true, [=](auto s, const Arrays& a) {
    kernels::gelu_backward(s, dtype, a.out.data(), a.dy.data(), a.x.data(), R * F, false);
  });
  add("swiglu.forward", 5, 2, false,
      [=](auto s, const Arrays& a) { kernels::swiglu_forward(s, dtype, a.out.data(), a.x.data(), R, F); });
  add("swiglu.backward", 12, 2, true, [=](auto s, const Arrays& a) {
    kernels::swiglu_backward(s, dtype, a.out.data(), a.dy.data(), a.x.data(), R, F, false);
  });
  add("dropout", 1, 1, false, [=](auto s, const Arrays& a) {
    kernels::dropout(s, {dtype, R * F, a.out.data(), a.x.data(), 0.1f, 1, {0}, false});
  });
}

}  // namespace

void add_row_cases(KernelCases& cases, const KernelSizes& sizes) {
  for (const DType dtype : kBenchDTypes) {
    add_norms(cases, sizes.M(), sizes.spec.width, dtype, sizes.device);
    add_activations(cases, sizes.M(), sizes.spec.ffn, dtype, sizes.device);
  }
}

}  // namespace lt::bench
