// Shared by the sources that use oneDNN: hides the difference between its versions 2 and 3, and declares the f32 path.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/gemm.h"

namespace lt::kernels {

// Computes f32 matmuls without batch and epilogue. For other matmuls, returns false and writes nothing.
bool sgemm_onednn(const Gemm& g);

// Describes dst = src weights (+ bias). A default-constructed `bias` means no bias.
// Throws dnnl::error if oneDNN has no implementation.
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
