// Conventions of all kernel headers. A kernel takes a stream, pointers and sizes: no tensor, autograd or communication.
//
// Each kernel is declared once, as a template over the stream's type, and specialised by each back end (kernels/cpu:
// CpuStream). `ops` selects the stream by the tensor's device with dispatch().
//
// Legend of the shape suffixes: B sequences, T tokens of each, M = B*T rows, C channels (width), H query heads,
// G key/value heads, D channels of a head, F channels of the feed-forward layer, V vocabulary, R rows, N elements.
// `void*` is an array of the `dtype` argument (f32, f64, bf16, f16); arithmetic is in f32, and in f64 for f64.
// `accumulate` = true adds to the output, false overwrites it.
// Gradients of parameters have the type gradient_dtype(). Unless stated otherwise, pointers are aligned to 64 bytes and
// outputs do not alias inputs.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::kernels {

// The type in which gradients of parameters of `dtype` are summed: f64 for f64, otherwise f32.
constexpr DType gradient_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// The shape [O, R, I] of an array around the dimension R.
struct MiddleShape {
  Size O, R, I;
};

}  // namespace lt::kernels
