// Loads a configuration from its layers, and writes it as text. Checks every value of a layer, even if a later layer
// overrides it.
#include "libtrain/config/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "config/config_schema.h"
#include "config/config_toml.h"
#include "config/model_table.h"
#include "config/nearest.h"
#include "config/optimizer_choices.h"
#include "config/origin.h"
#include "config/variables.h"
#include "io/lower_case.h"
#include "libtrain/device/device.h"
#include "libtrain/error.h"

namespace lt::config {
namespace {

namespace fs = std::filesystem;

// True for a variable that the program reads and that sets no configuration key.
bool is_reserved(std::string_view variable) {
  return std::ranges::find(kVariables, variable, &Variable::name) != std::end(kVariables);
}

std::string variable_of(const Key& key) {
  std::string variable = fmt::format("{}{}", kVariablePrefix, key.full_name());
  for (char& c : variable) c = c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

template <class Name>
std::vector<std::string> names_of(const std::vector<Key>& keys, Name&& name) {
  std::vector<std::string> names;
  for (const Key& key : keys) names.push_back(std::string(name(key)));
  return names;
}
std::vector<std::string> names_of(const std::vector<Key>& keys) {
  return names_of(keys, [](const Key& key) { return key.full_name(); });
}

const Key* find_key(const std::vector<Key>& keys, const std::string& name) {
  const auto found = std::ranges::find(keys, name, &Key::full_name);
  return found == keys.end() ? nullptr : &*found;
}

bool is_section(const std::vector<Key>& keys, std::string_view name) {
  return std::ranges::any_of(keys, [&](const Key& key) { return key.section == name; });
}

// A configuration while its layers are applied.
class Layers {
 public:
  explicit Layers(const Models& models)
      : config_(default_config(models)),
        keys_(schema(*models)),
        list_of_keys_(fmt::format("`{} train --help`", models->program)) {}

  void set(const std::string& name, const Value& value, const std::string& source) {
    const Key* key = find_key(keys_, name);
    const auto* text = std::get_if<Text>(&value);
    if (key == nullptr && text != nullptr) {
      const Key* table = find_table([&](const Key& of) { return name.starts_with(of.full_name() + "."); });
      if (table != nullptr) {
        set_field(*table, name.substr(table->full_name().size() + 1), text->text, source);
        return;
      }
    }
    if (key == nullptr) {
      throw UsageError("config", fmt::format("unknown key {} ({})", name, source), hint_for_key(name));
    }
    try {
      assign(config_, *key, value);
    } catch (const UsageError& error) {
      throw error.from(source);
    }
    config_.origins[name] = source;
  }

  void require_section(const std::string& name, const std::string& source) const {
    if (is_section(keys_, name)) return;
    const auto sections = names_of(keys_, [](const Key& key) { return fmt::format("[{}]", key.section); });
    throw UsageError("config", fmt::format("unknown section [{}] ({})", name, source),
                     nearest_hint(fmt::format("[{}]", name), sections, list_of_keys_));
  }

  void set_variable(const std::string& variable, const std::string& value) {
    const std::string source = std::string(kFromVariable) + variable;
    const auto found = std::ranges::find_if(keys_, [&](const Key& key) { return variable_of(key) == variable; });
    if (found == keys_.end()) {
      const Key* table = find_table([&](const Key& key) { return variable.starts_with(variable_of(key) + "_"); });
      if (table != nullptr) {
        set_field(*table, io::lower_case(variable.substr(variable_of(*table).size() + 1)), value, source);
        return;
      }
      throw UsageError("config", fmt::format("unknown environment variable {}", variable), hint_for_variable(variable));
    }
    set(found->full_name(), Text{value}, source);
  }

  // The last call, after all layers.
  void require_complete() const {
    for (const Key& key : keys_) {
      const auto origin = config_.origins.find(key.full_name());
      if (origin == config_.origins.end() || fields_of(config_, key).empty()) continue;
      try {
        config::require_complete(config_, key);
      } catch (const UsageError& error) {
        throw error.from(origin->second);
      }
    }
  }

  // After the layer of `file`. If it is that of a run's folder, which may have been moved or copied, it means the run
  // there, however that began.
  void name_run_of(const std::string& file) {
    fs::path folder = fs::path(file).parent_path();
    if (folder.empty()) folder = ".";
    std::error_code failed;
    if (fs::path(file).filename() != "config.toml" || !fs::exists(folder / "run.json", failed)) return;
    config_.checkpoint.resume = CheckpointConfig().resume, config_.run.force = RunConfig().force;
    if (!fs::equivalent(folder, config_.run.dir, failed)) config_.run.dir = folder.string();
  }

  const Config& config() const { return config_; }

 private:
  // The key that `is_it` accepts among those whose value is a table; null if there is none.
  template <class IsIt>
  const Key* find_table(IsIt&& is_it) const {
    const auto found =
        std::ranges::find_if(keys_, [&](const Key& key) { return is_it(key) && !fields_of(config_, key).empty(); });
    return found == keys_.end() ? nullptr : &*found;
  }

  void set_field(const Key& table, const std::string& field, const std::string& text, const std::string& source) {
    try {
      assign_field(config_, table, field, text);
    } catch (const UsageError& error) {
      throw error.from(source);
    }
    config_.origins[table.full_name()] = source;
  }

  std::string hint_for_key(const std::string& name) const {
    if (is_section(keys_, name)) {
      return fmt::format("{} is a section: its keys are {}.KEY, or KEY below [{}]", name, name, name);
    }
    return nearest_hint(name, names_of(keys_), list_of_keys_);
  }

  // LTRAIN_TRAIN_SEDE is near train.seed, LTRAIN_LR near optim.lr.
  std::string hint_for_variable(const std::string& variable) const {
    std::string name = io::lower_case(variable.substr(kVariablePrefix.size()));
    if (is_section(keys_, name)) return fmt::format("{} is a section: {}_KEY sets its keys", name, variable);
    const std::size_t underscore = name.find('_');
    if (underscore != name.npos && is_section(keys_, name.substr(0, underscore))) name[underscore] = '.';
    const std::vector<std::string> names = names_of(keys_);
    const std::string& meant = nearest(name, names);
    const std::string nearest_variable = variable_of(*find_key(keys_, meant));
    return is_near(name, meant) ? fmt::format("did you mean {}?", nearest_variable)
                                : fmt::format("{} lists the keys; the nearest is {}", list_of_keys_, nearest_variable);
  }

  Config config_;
  const std::vector<Key> keys_;
  const std::string list_of_keys_;
};

void add_toml(Layers& layers, const std::string& text, const std::string& file) {
  for (const TomlEntry& entry : parse_toml(text, file)) {
    if (entry.is_section) {
      layers.require_section(entry.name, entry.source);
    } else {
      layers.set(entry.name, entry.value, entry.source);
    }
  }
}

void add_environment(Layers& layers) {
  std::map<std::string, std::string> given;  // sorted, so that the same one of several errors is always reported
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (text.starts_with(kVariablePrefix) && equals != std::string_view::npos)
      given.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [variable, value] : given) {
    if (!is_reserved(variable)) layers.set_variable(variable, value);
  }
}

std::string help_of(const Key& key) {
  std::string help(key.help);
  if (!key.rule.choices.empty()) help += fmt::format(" ({})", fmt::join(key.rule.choices, ", "));
  return help;
}

}  // namespace

bool is_transformer(const Config& config) { return config.models->transformers && own_row(config) == nullptr; }

}  // namespace lt::config

namespace lt {

std::vector<ConfigKey> config_keys(const Models& models) {
  const Config fallbacks = default_config(models);
  std::vector<ConfigKey> made;
  for (const config::Key& key : config::schema(*models)) {
    made.push_back({key.full_name(), config::toml_text(fallbacks, key), config::help_of(key), key.rule.choices,
                    config::fields_of(fallbacks, key)});
  }
  return made;
}

const ModelRow* own_row(const Config& config) {
  const auto& rows = config.models->rows;
  const auto found = std::ranges::find(rows, config.model.family, &ModelRow::name);
  return found == rows.end() ? nullptr : &*found;
}

Config default_config(const Models& models) {
  Config config;
  config.models = models;
  if (!models->transformers && !models->rows.empty()) config.model.family = models->rows.front().name;
  for (const ModelRow& row : models->rows) {
    for (const ModelField& field : row.fields) config.model.own.emplace(field.name, field.fallback);
    for (const ModelField& field : row.batch_fields) config.batches.emplace(field.name, field.fallback);
  }
  return config;
}

Config load_config(const std::string& file, const std::vector<std::pair<std::string, std::string>>& command_line,
                   const Models& models) {
  config::Layers layers(models);
  if (!file.empty()) {
    config::add_toml(layers, config::read_text(file), file);
    layers.name_run_of(file);
  }
  config::add_environment(layers);
  for (const auto& [name, value] : command_line) layers.set(name, config::Text{value}, "from the command line");
  layers.require_complete();
  return layers.config();
}

Config config_from_toml(const std::string& text, const std::string& source, const Models& models) {
  config::Layers layers(models);
  config::add_toml(layers, text, source);
  return layers.config();
}

std::string to_toml(const Config& config) {
  const Config unset = default_config(config.models);
  std::string text, section;
  for (const config::Key& key : config::schema(*config.models)) {
    if (!config::is_of_model(key, config)) continue;
    if (key.section != section) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section = key.section);
    if (config.replaced.contains(key.full_name())) {
      text += fmt::format("# {} = (the program's own)\n", key.name);
      continue;
    }
    // data.epochs stands in place of train.steps, and a file that gives both is refused.
    const bool follows = config.data.epochs > 0 && key.full_name() == "train.steps";
    if (config.derived.contains(key.full_name())) {
      text += fmt::format("{} = {}  # = {}\n", key.name, config::toml_text(unset, key), config::toml_text(config, key));
      continue;
    }
    text += fmt::format(
        "{}{} = {}\n", follows ? "# " : "", key.name,
        follows && config.train.steps == TrainConfig().steps ? "(from data.epochs)" : config::toml_text(config, key));
  }
  return text;
}

std::map<std::string, std::string> flatten(const Config& given) {
  Config config = given;
  for (OptimGroupConfig& group : config.optim.groups) group.optimizer = config::optimizer_of(group, config.optim);
  std::map<std::string, std::string> values;
  for (const config::Key& key : config::schema(*config.models)) {
    if (config::is_of_model(key, config) && !config.replaced.contains(key.full_name()))
      values.emplace(key.full_name(), config::toml_text(config, key));
  }
  return values;
}

}  // namespace lt
