// Reads sources, given as TOML tables or as text of two forms, and checks every field. data::Mixture checks the weights
// against each other.
#include "config/config_sources.h"

#include <fmt/format.h>

#include "config/config_tables.h"
#include "libtrain/error.h"

namespace lt::config {
namespace {

constexpr const char* kExampleOfSources =
    R"([{"files": "code/*.bin", "weight": 0.3}, {"files": ["a.bin", "b.bin"], "weight": 0.7}])";

void set(DataSource& source, const TableFields& fields, const std::string& field, const Scalar& value) {
  if (field == "files") {
    source.files = fields.texts(field, value);
  } else if (field == "weight") {
    source.weight = fields.positive(field, value);
  } else {
    fields.refuse(field, {"files", "weight"});
  }
}

[[noreturn]] void refuse_part(const std::string& key, const std::string& part) {
  throw UsageError("config", key, "FILES:WEIGHT,... with weights above 0", "'" + part + "'",
                   fmt::format("every source needs a weight; a name with a comma needs JSON: '{}'", kExampleOfSources));
}

// "code/*.bin:0.3,b.bin:0.7". The last colon of each part separates files and weight.
std::vector<Table> tables_of_text(const std::string& text, const std::string& key) {
  std::vector<Table> tables;
  for (const std::string& part : split_at_commas(text)) {
    const std::size_t colon = part.rfind(':');
    if (colon == part.npos || colon == 0) refuse_part(key, part);
    const auto weight = number_in<double>(part.substr(colon + 1));
    if (!weight) refuse_part(key, part);
    tables.push_back({{"files", part.substr(0, colon)}, {"weight", *weight}});
  }
  return tables;
}

}  // namespace

std::vector<DataSource> sources_from(const Value& value, const std::string& key) {
  const auto* text = std::get_if<Text>(&value);
  const bool is_short = text != nullptr && !is_json(text->text);
  const std::vector<Table> tables =
      is_short ? tables_of_text(text->text, key) : tables_from(value, key, kExampleOfSources);
  if (tables.size() > kMaxDataSources) {
    throw UsageError("config", key, fmt::format("at most {}", kMaxDataSources), std::to_string(tables.size()));
  }
  std::vector<DataSource> sources;
  for (const Table& table : tables) {
    const TableFields fields(key, sources.size());
    DataSource& made = sources.emplace_back();
    for (const auto& [field, scalar] : table) set(made, fields, field, scalar);
    if (made.files.empty()) fields.fail_missing("files", "text or a list of texts");
  }
  return sources;
}

}  // namespace lt::config
