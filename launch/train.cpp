// `ltrain train`: trains a model, on one process or on the ranks of mpirun, srun or torchrun.
#include <CLI/CLI.hpp>
#include <csignal>

#include "launch/command.h"
#include "launch/config_options.h"
#include "libtrain/run/trainer.h"

namespace lt::launch {

CommandBody set_up_train(CLI::App& app, const Models& models) {
  const ConfigOptions options(app, models);
  return [options](const Invocation& invocation) {
    const auto config = options.load(invocation);
    if (!config) return ExitCode::ok;
    const ExitCode code = train(*config, invocation.world);
    std::signal(SIGUSR1, SIG_IGN);  // a supervisor repeats it, and the run has its exit code
    return code;
  };
}

}  // namespace lt::launch
