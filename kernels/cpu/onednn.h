// What the sources that use oneDNN share: the difference between its versions 2 and 3, and the path of f32.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/gemm.h"

namespace lt::kernels {

// f32 without batch and epilogue. False, and nothing written, for any other.
bool sgemm_onednn(const Gemm& g);

// The description of dst = src weights (+ bias). `bias` may be a default-constructed desc for none.
// Throws dnnl::error where oneDNN has no implementation.
inline dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const dnnl::memory::desc& src,
                                                    const dnnl::memory::desc& weights, const dnnl::memory::desc& bias,
                                                    const dnnl::memory::desc& dst, const dnnl::primitive_attr& attr) {
#if DNNL_VERSION_MAJOR < 3
  return dnnl::matmul::primitive_desc(dnnl::matmul::desc(src, weights, bias, dst), attr, engine);
#else
  return dnnl::matmul::primitive_desc(engine, src, weights, bias, dst, attr);
#endif
}

}  // namespace lt::kernels
