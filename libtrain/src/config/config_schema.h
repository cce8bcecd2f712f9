// The table of configuration keys: the name of each, where its value lives, and which values are valid. Every layer
// (file, environment, command line) assigns through it, so all of them read and reject values in the same way.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "libtrain/config/config.h"
#include "nn/spec_fields.h"

namespace lt::config {

// The key that sets the field: "model.width".
inline std::string key_of_field(const nn::SpecField& field) { return "model." + std::string(field.name); }

// The folder of a run's checkpoints unless checkpoint.dir names another one.
inline std::string own_checkpoints(const std::string& run_dir) { return run_dir + "/checkpoints"; }

// A value as a layer gives it: text that the key interprets, or a TOML type.
struct Text {
  std::string text;
};
struct Unsupported {
  std::string text;  // a date, a table, ...
};
// A table without nested tables.
using Scalar = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>, Unsupported>;
using Table = std::vector<std::pair<std::string, Scalar>>;
using Value = std::variant<Text, bool, std::int64_t, double, std::string, std::vector<std::string>, Table,
                           std::vector<Table>, Unsupported>;

// Where a Key's value lives; the type of the pointer is the type of the key.
using Field = std::variant<bool*, Size*, std::uint64_t*, float*, double*, std::string*, std::vector<std::string>*,
                           std::vector<DataSource>*, std::vector<OptimGroupConfig>*, nn::Lora*,
                           // types with a table in names.h
                           std::optional<bool>*, Strategy*, Recompute*, DType*, std::optional<DType>*, Precision*,
                           CommBackend*, std::optional<DeviceType>*, Documents*, TokenFormat*, Decay*>;

// The values that a key accepts. Members that do not fit the key's type are ignored.
struct Rule {
  double low, high;
  bool without_low = false, without_high = false;  // an open end
  std::vector<std::string> choices{};              // for text; empty: any text
  bool may_be_empty = false;                       // for text
};

struct Key {
  std::string_view section, name;
  std::function<Field(Config&)> field;
  Rule rule;
  std::string_view help;

  std::string full_name() const { return std::string(section) + "." + std::string(name); }
};

// In the order of `--help` and of the TOML text. The keys of a section are adjacent. `models` must outlive them.
std::vector<Key> schema(const ModelTable& models);
// The families of transformers.
std::set<std::string> built_in_families();
// Whether the key belongs to the model that the configuration chooses. Other sections belong to every model.
bool is_of_model(const Key& key, const Config& config);

Value value_of(const ModelValue& value);
// Throws UsageError about the key, or about a field of the tables that are its value.
void assign(Config& config, const Key& key, const Value& value);
// The key's value as a layer would give it.
Value value_of(const Config& config, const Key& key);
std::string toml_text(const Config& config, const Key& key);

}  // namespace lt::config
