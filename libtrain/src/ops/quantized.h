// Matrices in e4m3 for a linear layer's products (docs/numerics.md, "FP8").
#pragma once

#include <vector>

#include "libtrain/tensor/autograd.h"

namespace lt::ops {

// Values [R, C] in e4m3, and their scales in f32: [R], of the rows; or equal ones of any number.
struct Quantized {
  Tensor values, scales;

  bool defined() const { return values.defined(); }
};

// Whether the products of x W^T take operands in e4m3: those of a block's weights in bf16, if the context says so. If
// the sizes are not multiples of kernels::kQuantizedMultiple, gives notice that they do not.
bool multiplies_in_fp8(const Tensor& x, const Tensor& weight);

// Whether an operation on x should defer its output [..., C], because the next product is likely to take it quantized:
// in blocks in FP8.
bool should_defer(const Tensor& x, Size C);

// Quantizes a matrix, or the rows of x [..., C], each by its own scale. Deferred rows give the bits of those with
// values, and so does a weight that was gathered in e4m3, which is returned as it is.
Quantized quantize_rows(const Tensor& x);
// Fills each `scale` [any] with the largest of its `row_scales` [R], both f32, in one launch: the scale of a transpose.
// At most kernels::kMostLargestScales, otherwise InternalError.
struct LargestOf {
  Tensor scale, row_scales;
};
void find_largest(const std::vector<LargestOf>& all);
// The transpose [C, R], with the scale that find_largest() found for it. If `sums.dst` is defined, [C] in f32, it gets
// the sums over the rows of x.
Quantized transpose(const Quantized& x, const Tensor& scale, const GradientTarget& sums = {{}, false});
// The transpose of quantize_rows(weight), whose scales are `row_scales`.
Quantized transpose(const Tensor& weight, const Tensor& row_scales, const Tensor& scale);

}  // namespace lt::ops
