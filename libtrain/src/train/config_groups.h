// Groups of optimizers in a configuration: tables of TOML, or a JSON text.
#pragma once

#include <string>
#include <vector>

#include "train/config_schema.h"

namespace lt::config {

// Throws UsageError naming the element and its field: "<key>[1].lr_scale: expected ..., got ... (<source>)".
std::vector<OptimGroupConfig> groups_from(const Value& value, const std::string& key, const std::string& source);

}  // namespace lt::config
