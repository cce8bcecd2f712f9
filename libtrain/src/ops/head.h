// The size of the language-model head's chunks, for code that measures the head at the size of a step.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::ops {

// Returns how many rows a chunk of head_cross_entropy() has, for M rows of V logits. The last chunk may have fewer.
Size head_chunk_rows(DeviceType device, Size M, Size V);

}  // namespace lt::ops
