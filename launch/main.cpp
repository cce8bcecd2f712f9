// The `ltrain` program: parses the command line and runs the command.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "command_line.h"
#include "libtrain/comm/program.h"

namespace {

int run(const lt::World& world, const std::vector<std::string>& arguments) {
  lt::launch::Parsed parsed;
  lt::collectively(world.group(), [&] { parsed = lt::launch::parse_command_line(arguments); });
  if (!parsed.text.empty()) {
    if (world.rank() == 0) std::fputs(parsed.text.c_str(), stdout);
    return 0;
  }
  return static_cast<int>(parsed.run({world, parsed.config, parsed.command_line}));
}

// Makes a rank under `ltrain launch` die with the daemon that started it, even if the daemon is killed.
void die_with_parent() {
  if (std::getenv("LTRAIN_DIE_WITH_PARENT") == nullptr) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == 1) _exit(static_cast<int>(lt::ExitCode::restart));  // the parent died before the call above
}

}  // namespace

int main(int argc, char** argv) {
  die_with_parent();
  const std::vector<std::string> arguments{argv + 1, argv + argc};
  return lt::run_program(argc, argv, [&](const lt::World& world) { return run(world, arguments); },
                         {[&] { return lt::launch::shared_folder(arguments); }});
}
