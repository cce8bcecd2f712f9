// Reads model.lora and checks every field.
#include "config/config_lora.h"

#include "config/config_tables.h"

namespace lt::config {
namespace {

constexpr const char* kExampleOfLora = R"({"rank": 16, "alpha": 32, "targets": ["q_proj", "v_proj"]})";

constexpr const char* kRank = "an integer of at least 1";

void set(nn::Lora& lora, const TableFields& fields, const std::string& field, const Scalar& value) {
  if (field == "rank") {
    lora.rank = fields.count(field, value);
  } else if (field == "alpha") {
    lora.alpha = fields.positive(field, value);
  } else if (field == "targets") {
    const auto* list = std::get_if<std::vector<std::string>>(&value);
    if (list == nullptr) fields.fail(field, "a list of projections", value);
    lora.targets = list->empty() ? std::vector<std::string>() : fields.texts(field, value);
  } else {
    fields.refuse(field, {"rank", "alpha", "targets"});
  }
}

// Text that is no value of the field stays text, which set() refuses.
Scalar scalar_of(const std::string& field, const std::string& text) {
  if (field == "rank") {
    if (const auto rank = number_in<std::int64_t>(text)) return *rank;
  } else if (field == "alpha") {
    if (const auto alpha = number_in<double>(text)) return *alpha;
  } else if (field == "targets") {
    return split_at_commas(text);
  }
  return text;
}

}  // namespace

nn::Lora lora_from(const Value& value, const std::string& key) {
  const Table table = table_from(value, key, kExampleOfLora);
  const TableFields fields(key);
  nn::Lora lora;
  for (const auto& [field, scalar] : table) set(lora, fields, field, scalar);
  if (!table.empty() && lora.rank == 0) fields.fail_missing("rank", kRank);
  return lora;
}

std::vector<ConfigKey> lora_fields(const std::string& key) {
  return {{key + ".rank", "none", "rank of the adapters", {}, {}},
          {key + ".alpha", "rank", "factor of the adapters' product, before its division by rank", {}, {}},
          {key + ".targets", "all", "projections with adapters, separated by commas", {}, {}}};
}

void set_lora_field(nn::Lora& lora, const std::string& key, const std::string& field, const std::string& text) {
  set(lora, TableFields(key), field, scalar_of(field, text));
}

void require_rank(const nn::Lora& lora, const std::string& key) {
  if (lora.rank == 0 && lora != nn::Lora()) TableFields(key).fail_missing("rank", kRank);
}

}  // namespace lt::config
