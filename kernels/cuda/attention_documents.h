// Long documents of packed rows as a batch for cuDNN's ragged sequences. They are found on the device, so the host
// waits for nothing. A document of fewer than kLongDocument tokens is left to libtrain's kernels, so a fixed batch
// holds the long documents of any row: T / kLongDocument per sequence.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_options.h"

namespace lt::kernels {

// Lengths, and offsets in elements of each document's first token, in arrays with rows of (H + 2G) D, H D, G D and H
// elements. Sequences of the batch without a document have length 0.
struct DocumentBatch {
  Size most;                                                       // N = most_long_documents(), sequences of the batch
  std::int64_t *packed_N1, *heads_N1, *groups_N1, *statistics_N1;  // N + 1 each
  std::int32_t* lengths_N;
};

// Fills the batch on the stream. `memory` has document_batch_bytes(shape) bytes on the stream's device and holds the
// batch's arrays.
DocumentBatch find_long_documents(CudaStream stream, std::byte* memory, const std::int32_t* starts_BT,
                                  const AttentionShape& shape);

}  // namespace lt::kernels
