// Matrices in e4m3 for a linear layer's matmuls (docs/explanation/numerics.md, "FP8").
#pragma once

#include <vector>

#include "libtrain/tensor/autograd.h"

namespace lt::ops {

// Values [R, C] in e4m3, and their scales in f32: one for each row, [R], or any number of equal ones.
struct Quantized {
  Tensor values, scales;

  bool defined() const { return values.defined(); }
};

// True if the matmuls of x W^T take operands in e4m3: in a block in bf16, if the context enables FP8. If only the sizes
// prevent that (not multiples of kernels::kQuantizedMultiple, or too many columns), gives a notice and returns false.
bool multiplies_in_fp8(const Tensor& x, const Tensor& weight);

// True if an operation on x should defer its output [..., C], because the next matmul probably takes it quantized. Only
// in blocks in FP8.
bool should_defer(const Tensor& x, Size C);

// Quantizes each row of x [..., C] with its own scale. Deferred rows give the same bits as rows with values. A weight
// that was gathered in e4m3 is returned unchanged, with the same bits too.
Quantized quantize_rows(const Tensor& x);
// Fills all elements of each `scale` with the largest of its `row_scales` [R], both f32, in one launch. That is the
// scale of a transpose. Throws InternalError for more than kernels::kMostLargestScales entries.
struct LargestOf {
  Tensor scale, row_scales;
};
void find_largest(const std::vector<LargestOf>& all);
// Returns the transpose [C, R] of x. `scale`: the result of find_largest(). If `sums.dst` ([C], f32) is defined, it
// gets the sums over the rows of x.
Quantized transpose(const Quantized& x, const Tensor& scale, const GradientTarget& sums = {{}, false});
// Returns the transpose of quantize_rows(weight). `row_scales`: the scales of quantize_rows(weight).
Quantized transpose(const Tensor& weight, const Tensor& row_scales, const Tensor& scale);

}  // namespace lt::ops
