// Configuration files, as pairs of names and values.
#pragma once

#include <string>
#include <vector>

#include "train/config_schema.h"

namespace lt::config {

struct TomlEntry {
  std::string name;  // "section.key"; a section itself, "section", has no value
  Value value;
  std::string source;  // "from <file>:<line>"
  bool is_section = false;
};

// Throws UsageError naming file and line.
std::vector<TomlEntry> read_toml(const std::string& file);

}  // namespace lt::config
