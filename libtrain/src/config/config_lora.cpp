// Reads model.lora and checks every field.
#include "config/config_lora.h"

#include "config/config_tables.h"

namespace lt::config {
namespace {

constexpr const char* kExampleOfLora = R"({"rank": 16, "alpha": 32, "targets": ["q_proj", "v_proj"]})";

void set(nn::Lora& lora, const TableFields& fields, const std::string& field, const Scalar& value) {
  if (field == "rank") {
    lora.rank = fields.count(field, value);
  } else if (field == "alpha") {
    lora.alpha = fields.positive(field, value);
  } else if (field == "targets") {
    const auto* list = std::get_if<std::vector<std::string>>(&value);
    if (list == nullptr) fields.fail(field, "a list of projections", value);
    if (!list->empty()) lora.targets = fields.texts(field, value);
  } else {
    fields.refuse(field, {"rank", "alpha", "targets"});
  }
}

}  // namespace

nn::Lora lora_from(const Value& value, const std::string& key) {
  const Table table = table_from(value, key, kExampleOfLora);
  const TableFields fields(key);
  nn::Lora lora;
  for (const auto& [field, scalar] : table) set(lora, fields, field, scalar);
  if (!table.empty() && lora.rank == 0) fields.fail_missing("rank", "an integer of at least 1");
  return lora;
}

}  // namespace lt::config
