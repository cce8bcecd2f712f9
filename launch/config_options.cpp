// Registers the configuration keys as options for the help. command_line.cpp reads their values.
#include "launch/config_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

namespace lt::launch {

ConfigOptions::ConfigOptions(CLI::App& app, const Models& models) : models_(models) {
  app.add_option("--config", values_->file, "TOML configuration file")
      ->check({[](std::string& file) { return file.empty() ? "expected a file, got \"\"" : std::string(); }, ""})
      ->option_text("FILE");
  app.add_flag("--print-config", values_->print, "print the whole configuration as TOML and exit");
  const auto add = [&](const ConfigKey& key) {
    const auto unused = [](const CLI::results_t&) { return true; };
    app.add_option("--" + key.name, CLI::callback_t(unused), key.help)
        ->option_text("= " + key.fallback)
        ->group("[" + key.name.substr(0, key.name.find('.')) + "]");
  };
  for (const ConfigKey& key : config_keys(models)) {
    add(key);
    std::ranges::for_each(key.fields, add);
  }
  app.get_formatter()->column_width(36);
  app.footer(
      "Give configuration keys as --section.key=value. The command line overrides\n"
      "environment variables (LTRAIN_SECTION_KEY), which override the --config file,\n"
      "which overrides the defaults shown here.");
}

std::optional<Config> ConfigOptions::load(const Invocation& invocation) const {
  Config config;
  collectively(invocation.world.group(), [&] { config = load_config(values_->file, invocation.config, models_); });
  if (!values_->print) return config;
  if (invocation.world.rank() == 0) std::fputs(to_toml(config).c_str(), stdout);
  return std::nullopt;
}

}  // namespace lt::launch
