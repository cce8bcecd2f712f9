// Reads model.lora, given as a TOML table or as JSON text.
#pragma once

#include <string>

#include "train/config_schema.h"

namespace lt::config {

// Throws UsageError that names the field: "<key>.rank: expected ..., got ... (<source>)". The model checks the targets.
nn::Lora lora_from(const Value& value, const std::string& key, const std::string& source);

}  // namespace lt::config
