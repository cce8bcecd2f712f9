// Table look-up of token ids, with learned positions if the model has them.
#pragma once

#include <cstdint>

#include "kernels/common.h"
#include "kernels/id_check.h"

namespace lt::kernels {

// y_MC = table_VC[ids_M] (+ positions_TC[first + m mod T]). `positions` may be null. On CUDA `check` records
// ids outside [0, V), whose rows of y mean nothing; on the CPU there must be none.
// Given starts_M, the position in its sequence where each token's document begins, positions count from there:
// m mod T - starts_M[m], and `first` is 0.
struct EmbeddingForward {
  DType dtype;
  Size M, T, C, V;
  void* y_MC;
  const void *table_VC, *positions_TC;
  const std::int32_t* ids_M;
  Size first = 0;
  const std::int32_t* starts_M = nullptr;
  IdCheck check = {};
};
template <class S>
void embedding_forward(S stream, const EmbeddingForward& embedding);

// dtable_VC (+)= sum of dy over the rows with that id, dpositions_TC (+)= that over the rows at that position; either
// may be null. Positions are those of the forward pass. Sums run in the order of the rows, whatever the number of
// threads. Both have gradient_dtype(dtype). Writes all V rows of dtable and all `max_T` rows of dpositions, not only
// those that occur. On CUDA an id outside [0, V) leaves wrong sums, but writes nothing beyond the table; the forward
// pass has recorded it.
struct EmbeddingBackward {
  DType dtype;
  Size M, T, C, V, max_T;
  void *dtable_VC, *dpositions_TC;
  bool accumulate_table, accumulate_positions;
  const void* dy_MC;
  const std::int32_t* ids_M;
  const std::int32_t* starts_M = nullptr;
  Size first = 0;
};
template <class S>
void embedding_backward(S stream, const EmbeddingBackward& embedding);

}  // namespace lt::kernels
