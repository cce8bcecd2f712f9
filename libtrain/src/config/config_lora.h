// Reads model.lora, given as a TOML table or as JSON text, or field by field.
#pragma once

#include <string>
#include <vector>

#include "config/config_schema.h"

namespace lt::config {

// Throws UsageError that names the field: "<key>.rank: expected ..., got ...". The model checks the targets.
nn::Lora lora_from(const Value& value, const std::string& key);

// The fields as options of their own: "<key>.rank", ...
std::vector<ConfigKey> lora_fields(const std::string& key);
// Sets one field from text; commas separate targets, and empty text means all projections. Throws UsageError for an
// unknown field and for a wrong value. The caller must call require_rank() after the last field.
void set_lora_field(nn::Lora& lora, const std::string& key, const std::string& field, const std::string& text);
// Throws UsageError if other fields are set, but not the rank.
void require_rank(const nn::Lora& lora, const std::string& key);

}  // namespace lt::config
