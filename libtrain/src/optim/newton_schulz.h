// Newton-Schulz steps towards the nearest semi-orthogonal matrix. They move all singular values of a matrix close to 1.
#pragma once

#include "libtrain/optim/optimizer.h"

namespace lt::optim {

// Replaces each r x c matrix X in each of `directions` [rows, columns] by 0.2 sqrt(max(r, c)) O. O is the result of
// five steps that start from X / (|X|_F + 1e-7):
//   X <- a X + (b A + c A^2) X,  A = X X^T  (for r > c: X (b A + c A^2), A = X^T X, which is the same),
//   (a, b, c) = (3.4445, -4.7750, 2.0315)    (Jordan 2024; the scale: Liu et al. 2025).
// Computes in the directions' dtype, f32 or bf16, with sums in f32. A matrix's bits depend only on its own stack. Work
// is spread over the lanes because the matmuls of one matrix rarely occupy every multiprocessor.
void orthogonalise(std::span<const Tensor> directions, std::span<const MatrixStack> stacks,
                   const TransformLanes& lanes);
std::array<Size, kTransformLanes> orthogonalise_workspace_bytes(std::span<const MatrixStack> stacks, DType dtype);
double orthogonalise_flops(const MatrixStack& stack);

}  // namespace lt::optim
