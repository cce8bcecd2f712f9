// Reads the optimizer groups of a configuration, given as TOML tables or as JSON text.
#pragma once

#include <string>
#include <vector>

#include "config/config_schema.h"

namespace lt::config {

// Throws UsageError that names the element and its field: "<key>[1].lr_scale: expected ..., got ...".
std::vector<OptimGroupConfig> groups_from(const Value& value, const std::string& key);

}  // namespace lt::config
