// Reads configuration files with toml++, which nothing else includes.
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ASSERT(expr) static_assert(true)  // toml++ 3.3 asserts of a file, "[ =", what it goes on to refuse itself
#include "train/config_toml.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <utility>

#include "core/whole_file.h"
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

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// Where a character stands that TOML allows in strings and comments alone; npos where none does. toml++ 3.3 has
// undefined behaviour for some of them. Beyond the first error that toml++ finds the answer does not matter. It reads a
// number to its end before it finds one, so a quote within a word, where no string begins, counts too; so does a
// backslash before such a character, where toml++ looks for white space.
std::size_t misplaced_character(std::string_view text) {
  constexpr std::string_view kBeforeStrings = " \t\r\n=[{,";
  const std::size_t first = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  if (std::all_of(text.begin() + static_cast<std::ptrdiff_t>(first), text.end(), is_ascii)) return text.npos;
  std::string_view end;  // of the string or comment that the text is in; empty outside
  for (std::size_t i = first; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (end.empty()) {
      if (!is_ascii(text[i])) return i;
      const bool is_quote = text[i] == '"' || text[i] == '\'';
      if (is_quote && i > first && kBeforeStrings.find(text[i - 1]) == kBeforeStrings.npos) return i;
      for (const Span& span : kStringsAndComments) {
        if (!rest.starts_with(span.begin)) continue;
        end = span.end;
        i += span.begin.size() - 1;
        break;
      }
    } else if (text[i] == '\\' && end.front() == '"') {
      const std::size_t next = text.find_first_not_of(" \t\r\n\v\f", i + 1);  // a line that goes on ends in a backslash
      if (next != text.npos && !is_ascii(text[next])) return i;
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
  FileText found = read_file(file);
  if (found.problem.empty()) return std::move(found.text);
  throw UsageError("config", fmt::format("{}: expected a readable file, found: {}", file, found.problem));
}

std::vector<TomlEntry> parse_toml(const std::string& text, const std::string& file) {
  if (const std::size_t at = misplaced_character(text); at != text.npos) {
    const char* expected = text[at] == '\\'     ? "ASCII after a backslash"
                           : is_ascii(text[at]) ? "no quote within a word"
                                                : "ASCII outside of strings and comments";
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    throw UsageError("config", fmt::format("{}:{}: expected {}", file, line, expected));
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
