// Reads sources and checks every field. data::Mixture checks the weights against each other.
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

}  // namespace

std::vector<DataSource> sources_from(const Value& value, const std::string& key) {
  const std::vector<Table> tables = tables_from(value, key, kExampleOfSources);
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
