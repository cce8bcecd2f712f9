// The options of every command that takes a run's configuration: --config, --print-config and one for each key.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "launch/command.h"
#include "libtrain/config/config.h"

namespace lt::launch {

// Copies share their values. The command's row in commands.cpp must set takes_config.
class ConfigOptions {
 public:
  ConfigOptions(CLI::App& app, const Models& models);

  // Returns the configuration of all layers, or nullopt if --print-config printed it and the command is done. All ranks
  // must call it: an error on one rank is thrown on all.
  std::optional<Config> load(const Invocation& invocation) const;

 private:
  struct Values {
    std::string file;
    bool print = false;
  };
  Models models_;
  std::shared_ptr<Values> values_ = std::make_shared<Values>();
};

}  // namespace lt::launch
