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

// Both throw UsageError naming the file, and the line of text that is no TOML.
std::string read_text(const std::string& file);
std::vector<TomlEntry> parse_toml(const std::string& text, const std::string& file);

}  // namespace lt::config
