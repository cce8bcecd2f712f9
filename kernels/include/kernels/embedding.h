// Table look-up of token ids, with learned positions where the model has them.
#pragma once

#include <cstdint>

#include "kernels/common.h"

namespace lt::kernels {

// y_MC = table_VC[ids_M] (+ positions_TC[first + m mod T]). `positions` may be null. Ids are in [0, V).
template <class S>
void embedding_forward(S stream, DType dtype, void* y_MC, const void* table_VC, const void* positions_TC,
                       const std::int32_t* ids_M, Size M, Size T, Size C, Size first);

// dtable_VC (+)= sum of dy over the rows with that id, dpositions_TC (+)= sum of dy over the sequences; either may be
// null. Sums run in the order of the rows, whatever the number of threads. Both have gradient_dtype(dtype).
// V rows of dtable and `max_T` rows of dpositions are written (not only those that occur).
template <class S>
void embedding_backward(S stream, DType dtype, void* dtable_VC, bool accumulate_table, void* dpositions_TC,
                        bool accumulate_positions, const void* dy_MC, const std::int32_t* ids_M, Size M, Size T, Size C,
                        Size V, Size max_T);

}  // namespace lt::kernels
