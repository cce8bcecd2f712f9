// Checks of a configuration that involve several keys.
#pragma once

#include "libtrain/config/config.h"

namespace lt::config {

// `complete` has every derived value but train.accum. Throws UsageError that names the key.
void check(const Config& complete);

}  // namespace lt::config
