// The `ltrain` program: join the ranks, parse, run, and one place that maps errors to exit codes.
#include <cstdio>
#include <optional>

#include "command_line.h"
#include "leave.h"

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

}  // namespace

int main(int argc, char** argv) {
  std::optional<lt::World> world;
  try {
    world = lt::init(argc, argv);
  } catch (const lt::Error& error) {
    return lt::launch::leave_without_world(error);
  }
  try {
    return run(*world, {argv + 1, argv + argc});
  } catch (...) {
    return lt::launch::leave(*world, std::current_exception());
  }
}
