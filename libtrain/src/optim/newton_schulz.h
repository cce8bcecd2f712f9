// Newton-Schulz steps towards the nearest semi-orthogonal matrix: all singular values of a matrix come near 1.
#pragma once

#include "libtrain/optim/optimizer.h"

namespace lt {

// Each matrix X of each of `directions` [rows, columns] becomes 0.2 sqrt(max(r, c)) O, with O five steps, from X /
// (|X|_F + 1e-7), of
//   X <- a X + (b A + c A^2) X,  A = X X^T  (for r > c: X (b A + c A^2), A = X^T X, which is the same),
//   (a, b, c) = (3.4445, -4.7750, 2.0315)    (Jordan 2024; the scale: Liu et al. 2025).
// In their dtype, f32 or bf16, with sums in f32. A matrix's bits depend on its own stack alone. The work is shared out
// over the lanes, because the products of one matrix seldom fill a device to its last multiprocessor.
void orthogonalise(std::span<const Tensor> directions, std::span<const MatrixStack> stacks,
                   const TransformLanes& lanes);
std::array<Size, kTransformLanes> orthogonalise_room_bytes(std::span<const MatrixStack> stacks, DType dtype);
double orthogonalise_flops(const MatrixStack& stack);

}  // namespace lt
