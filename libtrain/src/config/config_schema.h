// The table of configuration keys: each key's name, the member that holds its value, and its valid values. Every layer
// (file, environment, command line) assigns through it, so all layers accept and reject the same values.
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

// The default of checkpoint.dir.
inline std::string own_checkpoints(const std::string& run_dir) { return run_dir + "/checkpoints"; }

// The default of checkpoint.every_minutes if checkpoint.every is 0.
inline constexpr double kDefaultSaveMinutes = 30;

// A value as a layer gives it: a TOML type, or text that the key's type interprets.
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

// Points to the member of Config that holds a key's value. The pointer's type is the key's type.
using Field =
    std::variant<bool*, Size*, std::uint64_t*, float*, double*, std::string*, std::vector<std::string>*,
                 std::vector<DataSource>*, std::vector<OptimGroupConfig>*, nn::Lora*,
                 // types with a table in names.h
                 std::optional<bool>*, Determinism*, Strategy*, Recompute*, DType*, std::optional<DType>*,
                 std::optional<Precision>*, CommBackend*, std::optional<DeviceType>*, Documents*, TokenFormat*, Decay*>;

// The values that a key accepts. Members that do not apply to the key's type are ignored.
struct Rule {
  double low, high;
  bool without_low = false, without_high = false;  // true: the bound itself is not valid
  std::vector<std::string> choices{};              // for text; empty: any text
  bool may_be_empty = false;                       // for text
  std::string_view prefix{};                       // for text: what begins with it is valid besides the choices
};

struct Key {
  std::string_view section, name;
  std::function<Field(Config&)> field;
  Rule rule;
  std::string_view help;

  std::string full_name() const { return std::string(section) + "." + std::string(name); }
};

// Returns all keys in the order of `--help` and of the TOML text. The keys of a section are adjacent. `models` must
// outlive them.
std::vector<Key> schema(const ModelTable& models);
// The names of the library's transformer families.
std::set<std::string> built_in_families();
// True if the configured model has the key. Keys of sections other than [model] and [batches] belong to every model.
bool is_of_model(const Key& key, const Config& config);

Value value_of(const ModelValue& value);
// Throws UsageError that names the key, or the field of a table in its value.
void assign(Config& config, const Key& key, const Value& value);
// Returns the key's value as a layer would give it.
Value value_of(const Config& config, const Key& key);
std::string toml_text(const Config& config, const Key& key);

// The fields of a key whose value is one table, as options of their own: "<key>.<field>". Empty for other keys.
std::vector<ConfigKey> fields_of(const Config& config, const Key& key);
// For keys that have such fields: assign_field() sets one of them from text. Throws UsageError for an unknown
// field and for a wrong value. After the last field the caller must call require_complete(), which throws UsageError if
// the table lacks a field.
void assign_field(Config& config, const Key& key, const std::string& field, const std::string& text);
void require_complete(const Config& config, const Key& key);

}  // namespace lt::config
