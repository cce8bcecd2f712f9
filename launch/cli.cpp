// The whole program. Parses the command line and runs the command: on all ranks if the command needs them, otherwise in
// one process that never looks for ranks.
#include "libtrain/launch/cli.h"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "comm/alone.h"
#include "comm/mpi/mpi_runtime.h"
#include "config/model_table.h"
#include "io/print_note.h"
#include "io/standard_descriptors.h"
#include "launch/command_line.h"
#include "libtrain/comm/program.h"
#include "libtrain/error.h"

namespace lt {
namespace {

// What a command printed may be its result, which a full disk can cut off. A reader that has left wants no more.
void require_printed() {
  const bool is_flushed = std::fflush(stdout) == 0;
  if (is_flushed && std::ferror(stdout) == 0) return;
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  if (::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0) return;
  const std::string reason = is_flushed ? "a part was lost" : std::strerror(errno);
  throw DataError("output", "standard output: cannot write: " + reason);
}

int run(const World& world, const launch::Parsed& parsed) {
  int code = 0;
  try {
    code = static_cast<int>(parsed.run({world, parsed.config, parsed.command_line}));
  } catch (const std::system_error&) {  // fmt::print() throws it
    if (std::ferror(stdout) == 0) throw;
  }
  if (code == 0) require_printed();
  return code;
}

int run_without_ranks(const launch::Parsed& parsed) {
  if (parsed.text.empty()) return run(comm::world_of_one(), parsed);
  std::fputs(parsed.text.c_str(), stdout);
  require_printed();
  return 0;
}

// Makes a rank under `ltrain launch` die with the daemon that started it, even if the daemon is killed.
void die_with_parent() {
  if (std::getenv("LTRAIN_DIE_WITH_PARENT") == nullptr) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == 1) _exit(static_cast<int>(ExitCode::restart));  // the parent died before the call above
}

}  // namespace

int cli(int argc, char** argv, ModelTable table) {
  io::open_standard_descriptors();
  die_with_parent();
  const std::vector<std::string> arguments{argv + std::min(argc, 1), argv + argc};
  if (const auto name = std::filesystem::path(argc > 0 ? argv[0] : "").filename(); !name.empty()) table.program = name;
  const auto models = std::make_shared<const ModelTable>(std::move(table));
  launch::Parsed parsed;
  const int code = comm::run_alone([&] {
    config::require_valid(*models);
    parsed = launch::parse_command_line(arguments, models);
    if (parsed.needs_ranks) return 0;
    if (!comm::is_later_mpi_rank()) return run_without_ranks(parsed);
    io::print_note(
        "note: rank 0 of MPI runs this command; to run it here, unset OMPI_COMM_WORLD_RANK, PMIX_RANK and PMI_RANK\n");
    return 0;
  });
  if (code != 0 || !parsed.needs_ranks) return code;
  return run_program(argc, argv, [&](const World& world) { return run(world, parsed); },
                     {[&] { return launch::shared_folder(parsed, models); }});
}

}  // namespace lt
