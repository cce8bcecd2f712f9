// Parses results, and finds the fields in which their rows differ.
#include "bench/result_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "io/json_file.h"

namespace lt::bench {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string value_of(const Fields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, [](const auto& field) { return std::string_view(field.first); });
  return found == fields.end() ? "none" : found->second;
}

// The names of all fields of either list.
std::vector<std::string> names_of(const Fields& a, const Fields& b) {
  std::vector<std::string> names;
  for (const Fields* fields : {&a, &b}) {
    for (const auto& [name, value] : *fields) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

// A text of words NAME=VALUE as fields; empty if a word is none.
Fields words_of(const std::string& text) {
  std::istringstream stream(text);
  Fields fields;
  for (std::string word; stream >> word;) {
    const std::size_t equals = word.find('=');
    if (equals != word.npos) {
      fields.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    } else if (!fields.empty()) {
      return {};
    }
  }
  return fields;
}

std::vector<std::string> differences_of(const Fields& a, const Fields& b) {
  std::vector<std::string> differences;
  for (const std::string& name : names_of(a, b)) {
    const std::string left = value_of(a, name), right = value_of(b, name);
    if (left == right) continue;
    const Fields left_words = words_of(left), right_words = words_of(right);
    const std::vector<std::string> of_words = left_words.empty() || right_words.empty()
                                                  ? std::vector<std::string>{}
                                                  : differences_of(left_words, right_words);
    for (const std::string& word : of_words) differences.push_back(fmt::format("{} {}", name, word));
    if (of_words.empty()) differences.push_back(fmt::format("{}: {} in A, {} in B", name, left, right));
  }
  return differences;
}

}  // namespace

std::string short_text(const Json& value) {
  const std::string text = text_of(value);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

std::string MeasuredRow::name() const {
  std::string text;
  for (const auto& [field, value] : identity) {
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", field == "ranks" ? "ranks=" : "", value);
  }
  return text;
}

ResultFile::ResultFile(const std::string& path) : path_(path) {
  document_ = io::read_json_file("bench", path);
  require(document_.is_object(), "the whole", "an object", document_);
  const Json schema = field("schema"), rows = field("rows");
  require(schema.is_number_integer() && schema == kSchema, "schema", std::to_string(kSchema), schema);
  require(field("benchmark").is_string(), "benchmark", "a name", field("benchmark"));
  require(field("machine").is_object(), "machine", "an object", field("machine"));
  require(rows.is_array(), "rows", "an array", rows);
  for (const Json& row : rows) add(row);
}

const MeasuredRow* ResultFile::find(const MeasuredRow& row) const {
  const auto found = std::ranges::find(rows_, row.identity, &MeasuredRow::identity);
  return found == rows_.end() ? nullptr : &*found;
}

void ResultFile::require(bool holds, const std::string& what, const std::string& expected, const Json& actual) const {
  if (holds) return;
  throw DataError("bench",
                  fmt::format("{}: {}: expected {}, got {}", path_, what, expected,
                              actual.is_null() ? "nothing" : short_text(actual)),
                  "a result is what `bench kernels|comm|rates|step|scaling|tune --out FILE` writes");
}

void ResultFile::add(const Json& row) {
  const std::string at = fmt::format("rows[{}]", rows_.size()), benchmark = field("benchmark").get<std::string>();
  require(row.is_object(), at, "an object", row);
  MeasuredRow measured{{{"benchmark", benchmark == "scaling" ? "step" : benchmark}}, {}};
  for (const std::string_view key : kIdentity) {
    const Json value = row.value(std::string(key), Json());
    if (value.is_null()) continue;
    // One rank without the others: all strategies are the same there, and `step` calls it by the default one.
    const bool is_alone = benchmark == "scaling" && key == "strategy" && value == "single";
    measured.identity.emplace_back(key, is_alone ? "ddp" : text_of(value));
  }
  const Json ms = row.value("ms", Json());
  require(ms.is_object(), at + ".ms", "an object", ms);
  const auto number = [&](const std::string& key, const Json& value) {
    require(value.is_number() && value.get<double>() > 0, at + ".ms." + key, "a number above 0", value);
    return value.get<double>();
  };
  measured.times = {number("min", ms.value("min", Json())), number("median", ms.value("median", Json())), {}};
  const Json blocks = ms.value("blocks", Json::array());
  require(blocks.is_array(), at + ".ms.blocks", "an array", blocks);
  for (const Json& block : blocks) measured.times.blocks.push_back(number("blocks", block));
  require(find(measured) == nullptr, at, "a row of its own", measured.name());
  rows_.push_back(std::move(measured));
}

std::string nearest_difference(const std::vector<MeasuredRow>& a, const std::vector<MeasuredRow>& b) {
  std::vector<std::string> fewest;
  for (const MeasuredRow& left : a) {
    for (const MeasuredRow& right : b) {
      std::vector<std::string> differences = differences_of(left.identity, right.identity);
      if (fewest.empty() || differences.size() < fewest.size()) fewest = std::move(differences);
    }
  }
  return fmt::format("{}", fmt::join(fewest, "; "));
}

}  // namespace lt::bench
