// Parses lines of JSON.
#include "data/json_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "io/json_depth.h"
#include "io/json_problem.h"
#include "io/utf8.h"
#include "libtrain/error.h"

namespace lt::data {

void refuse_line(const std::string& path, const JsonLine& line, const std::string& what, const std::string& hint) {
  throw DataError("data", fmt::format("{}:{}: {}", path, line.number, what), hint);
}

namespace {

// The code unit of an escape with \u at the beginning of the text; nullopt for other text.
std::optional<unsigned> escaped_unit(std::string_view text) {
  unsigned unit = 0;
  if (text.size() < 6 || !text.starts_with("\\u")) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + 6, unit, 16);
  return end == text.data() + 6 && error == std::errc() ? std::optional(unit) : std::nullopt;
}

// Replaces escapes of one half of a surrogate pair by that of U+FFFD. Python writes such strings, and reads them.
std::string with_whole_characters(std::string_view rest) {
  std::string whole;
  while (!rest.empty()) {
    const auto unit = escaped_unit(rest), next = escaped_unit(rest.substr(std::min<std::size_t>(6, rest.size())));
    const bool is_high = unit && *unit >= 0xd800 && *unit < 0xdc00, is_low = unit && *unit >= 0xdc00 && *unit < 0xe000;
    const bool is_pair = is_high && next && *next >= 0xdc00 && *next < 0xe000;
    const std::size_t length = is_pair                  ? 12
                               : unit                   ? 6
                               : rest.starts_with('\\') ? std::min<std::size_t>(2, rest.size())
                                                        : 1;
    whole += (is_high || is_low) && !is_pair ? std::string_view("\\ufffd") : rest.substr(0, length);
    rest.remove_prefix(length);
  }
  return whole;
}

// The bytes at the beginning of the text that are a number which JSON lacks or double does not hold; 0 if none.
std::size_t odd_number_bytes(std::string_view text) {
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    if (text.starts_with(word)) return word.size();
  }
  if (text.front() != '-' && (text.front() < '0' || text.front() > '9')) return 0;
  double value = 0;
  const std::size_t size = std::min(text.find_first_not_of("+-.0123456789eE"), text.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + size, value);
  return error == std::errc::result_out_of_range && end == text.data() + size ? size : 0;
}

// Replaces such numbers by `[0]` and blanks, which keeps the columns.
std::string without_odd_numbers(std::string text) {
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string) {
      i += text[i] == '\\' ? 1 : 0;
    } else if (const std::size_t size = odd_number_bytes(std::string_view(text).substr(i)); size > 0) {
      text.replace(i, size, "[0]" + std::string(size - 3, ' '));
      i += size - 1;
    } else if (const std::size_t end = text.find_first_not_of("+-.0123456789eE", i); end > i) {
      i = std::min(end, text.size()) - 1;  // the rest of a number is none of its own
    }
  }
  return text;
}

// What a line is instead of an object.
std::string problem_of(std::string_view line) {
  if (const std::size_t at = io::valid_utf8_bytes(line); at < line.size()) {
    return fmt::format("bytes that are not UTF-8, {:#04x} at column {}", static_cast<unsigned char>(line[at]), at + 1);
  }
  std::string problem = io::json_problem(without_odd_numbers(with_whole_characters(line)), kMaxLineDepth);
  constexpr std::string_view kLine = "line 1, ";  // of the text, which is none but this one
  if (const std::size_t at = problem.find(kLine); at != std::string::npos) problem.erase(at, kLine.size());
  return problem;
}

// The likeliest reason.
std::string hint_for(const JsonLine& line) {
  const std::size_t begin = line.text.find_first_not_of(" \t\r");
  if (line.number == 1 && begin != std::string_view::npos && line.text[begin] == '[')
    return "JSON lines are objects, one a line: `jq -c '.[]' FILE` writes those of an array so";
  if (!io::is_utf8(line.text)) return "JSON is UTF-8: `iconv -f LATIN1 -t UTF-8 FILE` rewrites a file of Latin-1";
  return "";
}

}  // namespace

nlohmann::json object_of(const std::string& path, const JsonLine& line) {
  const bool is_deep = io::json_depth(line.text) > kMaxLineDepth;
  const auto parsed = [](std::string_view text) {
    return nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
  };
  nlohmann::json json = is_deep ? nlohmann::json(nlohmann::json::value_t::discarded) : parsed(line.text);
  if (!is_deep && json.is_discarded()) json = parsed(without_odd_numbers(with_whole_characters(line.text)));
  if (!json.is_object())
    refuse_line(path, line, "expected a JSON object on one line, found " + problem_of(line.text), hint_for(line));
  return json;
}

}  // namespace lt::data
