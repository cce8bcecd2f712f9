// Table look-up of token ids, with learned positions if the model has them.
#pragma once

#include <cstdint>

#include "kernels/common.h"
#include "kernels/id_check.h"

namespace lt::kernels {

// y_MC = table_VC[ids_M] (+ positions_TC[first + m mod T]). `positions` may be null. On CUDA `check` records ids
// outside [0, V), whose rows of y are undefined; on the CPU all ids must be in [0, V).
// starts_M gives, for each token, the position in its sequence where the token's document begins. With starts_M,
// positions count from there: m mod T - starts_M[m], and `first` is 0.
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

// dtable_VC[v] (+)= the sum of dy over the rows with id v. dpositions_TC[t] (+)= the sum of dy over the rows at
// position t, as in the forward pass. Either may be null. Sums run in the order of the rows for any number of threads.
// Both have gradient_dtype(dtype). Writes all V rows of dtable and all `max_T` rows of dpositions, not only those that
// occur. On CUDA an id outside [0, V) makes sums wrong, but nothing is written outside the table; the forward pass has
// recorded the id.
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
