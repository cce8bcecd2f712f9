// Identifies the step that a row of `bench step` or `bench scaling` measures, so that `bench compare` can match the
// rows of two files.
#pragma once

#include <string>

#include "bench/result.h"
#include "libtrain/config/resolved.h"

namespace lt::bench {

// Returns the fields of kIdentity of a row for steps of a run. `options` has every key that a step's work may depend
// on, that no other field covers and that is not the default.
Json step_identity(const Resolved& resolved, int ranks, const std::string& strategy);

}  // namespace lt::bench
