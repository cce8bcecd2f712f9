// Reads model.lora, given as a TOML table or as JSON text.
#pragma once

#include <string>

#include "config/config_schema.h"

namespace lt::config {

// Throws UsageError that names the field: "<key>.rank: expected ..., got ...". The model checks the targets.
nn::Lora lora_from(const Value& value, const std::string& key);

}  // namespace lt::config
