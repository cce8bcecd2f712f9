// How the head cuts its rows: for whoever measures it at the size of a step.
#pragma once

#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::ops {

// Rows of a chunk of head_cross_entropy() with M rows of V logits; the last chunk may have fewer.
Size head_chunk_rows(DeviceType device, Size M, Size V);

}  // namespace lt::ops
