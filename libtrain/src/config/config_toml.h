// Reads configuration files as pairs of names and values.
#pragma once

#include <string>
#include <vector>

#include "config/config_schema.h"

namespace lt::config {

struct TomlEntry {
  std::string name;  // "section.key", or "section" for the section itself, which has no value
  Value value;
  std::string source;  // "from <file>:<line>"
  bool is_section = false;
};

// Both throw UsageError that names the file; parse_toml() also names the line of a syntax error.
std::string read_text(const std::string& file);
std::vector<TomlEntry> parse_toml(const std::string& text, const std::string& file);

}  // namespace lt::config
