// What a row of `bench step` or `bench scaling` measured, so that `bench compare` finds the same row in another file.
#pragma once

#include <string>

#include "bench/result.h"
#include "libtrain/config/resolved.h"

namespace lt::bench {

// The fields of kIdentity of a row for steps of a run. `options` has every key that a step's
// work may depend on, that no other field says and that is not the default.
Json step_identity(const Resolved& resolved, int ranks, const std::string& strategy);

}  // namespace lt::bench
