// What a row of `bench step` or `bench scaling` measured, so that `bench compare` finds the same row in another file.
#pragma once

#include <string>

#include "libtrain/train/config.h"
#include "result.h"

namespace lt::bench {

// The fields of kIdentity of a row for steps with this resolved configuration. `options` has every key that a step's
// work may depend on, that no other field says and that is not the default.
Json step_identity(const Config& config, int ranks, const std::string& strategy);

}  // namespace lt::bench
