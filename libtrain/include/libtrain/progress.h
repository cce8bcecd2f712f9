// How long calls report their progress.
#pragma once

#include <functional>

#include "libtrain/dtype.h"

namespace lt {

// Receives how much of a long call is done, on the thread of the caller, beginning with (0, total).
using OnProgress = std::function<void(Size done, Size total)>;

}  // namespace lt
