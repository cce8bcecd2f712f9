// Reads the sources of training data, given as TOML tables or as JSON text.
#pragma once

#include <string>
#include <vector>

#include "config/config_schema.h"

namespace lt::config {

// Throws UsageError that names the element and its field: "<key>[1].weight: expected ..., got ...".
std::vector<DataSource> sources_from(const Value& value, const std::string& key);

}  // namespace lt::config
