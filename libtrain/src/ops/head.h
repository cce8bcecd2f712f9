// How the head splits its rows into chunks, for code that measures the head at the size of a step.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::ops {

// Returns the rows of one chunk of head_cross_entropy() with M rows of V logits. The last chunk may have fewer.
Size head_chunk_rows(DeviceType device, Size M, Size V);

}  // namespace lt::ops
