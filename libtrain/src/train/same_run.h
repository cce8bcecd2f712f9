// Which keys make two configurations the same run.
#pragma once

#include <string>

#include "libtrain/train/config.h"

namespace lt {

// Throws UsageError naming the keys that differ and decide which run it is. `earlier` is the configuration of the run
// in `where`, as TOML.
void require_same_run(const Config& resolved, const std::string& earlier, const std::string& where);

// Of the keys that decide which run this is: model, data, optimizer, sample length and what the weights start from. 16
// hex digits.
std::string config_hash(const Config& resolved);

}  // namespace lt
