// Reads configuration files with toml++, which nothing else includes.
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ASSERT(expr) static_assert(true)  // toml++ 3.3 asserts of a file, "[ =", what it goes on to refuse itself
#include "train/config_toml.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "libtrain/error.h"

namespace lt::config {
namespace {

Value value_of(const toml::node& node) {
  if (const auto v = node.value_exact<bool>()) return *v;
  if (const auto v = node.value_exact<std::int64_t>()) return *v;
  if (const auto v = node.value_exact<double>()) return *v;
  if (const auto v = node.value_exact<std::string>()) return *v;
  if (const toml::array* array = node.as_array()) {
    std::vector<std::string> values;
    for (const toml::node& element : *array) {
      const auto v = element.value_exact<std::string>();
      if (!v) return Unsupported{"a list with an element that is not a string"};
      values.push_back(*v);
    }
    return values;
  }
  return Unsupported{node.is_table() ? "a table" : "a date or time"};
}

struct Span {
  std::string_view begin, end;
};
constexpr Span kStringsAndComments[] = {{"\"\"\"", "\"\"\""}, {"'''", "'''"}, {"\"", "\""}, {"'", "'"}, {"#", "\n"}};

// Where a character stands that TOML allows in strings and comments alone; npos where none does. toml++ 3.3 has
// undefined behaviour for some of them. Beyond the first error that toml++ finds the answer does not matter.
std::size_t misplaced_character(std::string_view text) {
  std::string_view end;  // of the string or comment that the text is in; empty outside
  for (std::size_t i = text.starts_with("\xEF\xBB\xBF") ? 3 : 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (end.empty()) {
      if (static_cast<unsigned char>(text[i]) >= 0x80) return i;
      for (const Span& span : kStringsAndComments) {
        if (!rest.starts_with(span.begin)) continue;
        end = span.end;
        i += span.begin.size() - 1;
        break;
      }
    } else if (text[i] == '\\' && end.front() == '"') {
      ++i;
    } else if (rest.starts_with(end)) {
      i += end.size() - 1;
      // The end of a long string may have one or two quotes before it.
      for (int extra = 0; end.size() == 3 && extra < 2 && i + 1 < text.size() && text[i + 1] == end[0]; ++extra) ++i;
      end = {};
    } else if (text[i] == '\n' && end.size() == 1) {
      end = {};
    }
  }
  return text.npos;
}

}  // namespace

std::string read_text(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    throw UsageError("config", file + ": expected a readable file, found a folder");
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw UsageError("config", fmt::format("{}: expected a readable file, found: {}", file, std::strerror(errno)));
  }
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<TomlEntry> parse_toml(const std::string& text, const std::string& file) {
  if (const std::size_t at = misplaced_character(text); at != text.npos) {
    throw UsageError("config",
                     fmt::format("{}:{}: expected ASCII outside of strings and comments", file,
                                 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n')));
  }
  toml::table root;
  try {
    root = toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw UsageError("config", fmt::format("{}:{}: {}", file, error.source().begin.line, error.description()));
  }
  const auto source = [&](const toml::node& node) { return fmt::format("from {}:{}", file, node.source().begin.line); };
  std::vector<TomlEntry> entries;
  for (const auto& [name, node] : root) {
    const toml::table* section = node.as_table();
    entries.push_back({std::string(name.str()), value_of(node), source(node), section != nullptr});
    if (section == nullptr) continue;
    for (const auto& [key, value] : *section) {
      entries.push_back({fmt::format("{}.{}", name.str(), key.str()), value_of(value), source(value)});
    }
  }
  return entries;
}

}  // namespace lt::config
