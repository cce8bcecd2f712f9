// Loads a configuration from its layers and writes it as text. Every value of a layer is checked, even if a later layer
// overrides it.
#include "libtrain/train/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "libtrain/device/device.h"
#include "libtrain/error.h"
#include "train/config_schema.h"
#include "train/config_toml.h"
#include "train/nearest.h"

namespace lt {

using config::Key;
using config::schema;

namespace {

constexpr std::string_view kPrefix = "LTRAIN_";
// Variables that the program reads but that are not configuration.
constexpr std::string_view kReserved[] = {"LTRAIN_FAULT", "LTRAIN_TOKEN", "LTRAIN_RESTART", "LTRAIN_DIE_WITH_PARENT"};

std::string variable_of(const Key& key) {
  std::string name = fmt::format("{}{}_{}", kPrefix, key.section, key.name);
  for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

template <class Name>
std::vector<std::string> names_of_keys(Name&& name) {
  std::vector<std::string> names;
  for (const Key& key : schema()) names.push_back(std::string(name(key)));
  return names;
}

constexpr const char* kListOfKeys = "`ltrain train --help`";

bool is_section(std::string_view name) {
  return std::any_of(schema().begin(), schema().end(), [&](const Key& key) { return key.section == name; });
}

std::string hint_for_key(const std::string& name) {
  static const auto names = names_of_keys([](const Key& key) { return key.full_name(); });
  if (is_section(name)) return fmt::format("{} is a section: its keys are {}.KEY, or KEY below [{}]", name, name, name);
  return nearest_hint(name, names, kListOfKeys);
}

// LTRAIN_TRAIN_SEDE is near train.seed, LTRAIN_LR near optim.lr.
std::string hint_for_variable(const std::string& variable) {
  static const auto keys = names_of_keys([](const Key& key) { return key.full_name(); });
  std::string name = variable.substr(kPrefix.size());
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (is_section(name)) return fmt::format("{} is a section: {}_KEY sets its keys", name, variable);
  const std::size_t underscore = name.find('_');
  if (underscore != name.npos && is_section(name.substr(0, underscore))) name[underscore] = '.';
  const std::string& meant = nearest(name, keys);
  const std::string nearest_variable = variable_of(*config::find_key(meant));
  return is_near(name, meant) ? fmt::format("did you mean {}?", nearest_variable)
                              : fmt::format("{} lists the keys; the nearest is {}", kListOfKeys, nearest_variable);
}

// A configuration while its layers are applied.
class Layers {
 public:
  void set(const std::string& name, const config::Value& value, const std::string& source) {
    const Key* key = config::find_key(name);
    if (key == nullptr) {
      throw UsageError("config", fmt::format("unknown key {} ({})", name, source), hint_for_key(name));
    }
    config::assign(config_, *key, value, source);
    config_.origins[name] = source;
  }

  void require_section(const std::string& name, const std::string& source) const {
    static const auto sections = names_of_keys([](const Key& key) { return fmt::format("[{}]", key.section); });
    if (is_section(name)) return;
    throw UsageError("config", fmt::format("unknown section [{}] ({})", name, source),
                     nearest_hint(fmt::format("[{}]", name), sections, kListOfKeys));
  }

  const Config& config() const { return config_; }

 private:
  Config config_;
};

void add_toml(Layers& layers, const std::string& text, const std::string& file) {
  for (const config::TomlEntry& entry : config::parse_toml(text, file)) {
    if (entry.is_section) {
      layers.require_section(entry.name, entry.source);
    } else {
      layers.set(entry.name, entry.value, entry.source);
    }
  }
}

void add_environment(Layers& layers) {
  static const auto variables = names_of_keys(variable_of);
  std::map<std::string, std::string> given;  // sorted, so that the same one of several errors is always reported
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (text.starts_with(kPrefix) && equals != std::string_view::npos)
      given.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [variable, value] : given) {
    if (std::find(std::begin(kReserved), std::end(kReserved), variable) != std::end(kReserved)) continue;
    const auto found = std::find(variables.begin(), variables.end(), variable);
    if (found == variables.end()) {
      throw UsageError("config", fmt::format("unknown environment variable {}", variable), hint_for_variable(variable));
    }
    const Key& key = schema()[static_cast<std::size_t>(found - variables.begin())];
    layers.set(key.full_name(), config::Text{value}, "from the environment variable " + variable);
  }
}

std::string help_of(const Key& key) {
  std::string help(key.help);
  if (!key.rule.choices.empty()) help += fmt::format(" ({})", fmt::join(key.rule.choices, ", "));
  return help;
}

}  // namespace

const std::vector<ConfigKey>& config_keys() {
  static const std::vector<ConfigKey> keys = [] {
    std::vector<ConfigKey> made;
    for (const Key& key : schema()) {
      made.push_back({key.full_name(), toml_text(Config{}, key), help_of(key), key.rule.choices});
    }
    return made;
  }();
  return keys;
}

Config load_config(const std::string& file, const std::vector<std::pair<std::string, std::string>>& command_line) {
  Layers layers;
  if (!file.empty()) add_toml(layers, config::read_text(file), file);
  add_environment(layers);
  for (const auto& [name, value] : command_line) layers.set(name, config::Text{value}, "from the command line");
  return layers.config();
}

Config config_from_toml(const std::string& text, const std::string& source) {
  Layers layers;
  add_toml(layers, text, source);
  return layers.config();
}

std::string to_toml(const Config& config) {
  std::string text, section;
  for (const Key& key : schema()) {
    if (config.model.is_programs_own && key.section == "model") continue;
    if (key.section != section) text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section = key.section);
    // data.epochs stands in place of train.steps, and a file that gives both is refused.
    const bool follows = config.data.epochs > 0 && key.full_name() == "train.steps";
    text += fmt::format(
        "{}{} = {}\n", follows ? "# " : "", key.name,
        follows && config.train.steps == TrainConfig().steps ? "(from data.epochs)" : toml_text(config, key));
  }
  return text;
}

std::map<std::string, std::string> flatten(const Config& config) {
  std::map<std::string, std::string> values;
  for (const Key& key : schema()) values.emplace(key.full_name(), toml_text(config, key));
  return values;
}

}  // namespace lt
