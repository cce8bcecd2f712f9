// Runs a program's body and reports its failure in one message for all ranks.
#include "libtrain/comm/program.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "comm/alone.h"
#include "comm/current_error.h"
#include "comm/deadline.h"
#include "comm/mpi/mpi_runtime.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

// The longest time that a rank takes to exit, because a peer may be gone or hang.
constexpr std::chrono::seconds kExitDeadline{10};
// Most errors occur on all ranks alike. The other ranks give rank 0 this long to report and end the run.
constexpr std::chrono::seconds kPatience{2};

// Leaves out the rank if `rank` is negative.
std::string error_text(const Error& error, int rank) {
  std::string text = fmt::format("error: [{}] ", error.component());
  if (rank >= 0) text += fmt::format("rank {}: ", rank);
  text += fmt::format("{}\n", error.what());
  if (!error.hint().empty()) text += fmt::format("hint: {}\n", error.hint());
  return text;
}

void print(const Error& error, int rank) {
  const std::string text = error_text(error, rank);
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

int exit_code(const Error& error) { return static_cast<int>(error.code()); }

int leave_shared(const World& world, const Error& error) {
  if (world.rank() == 0) print(error, error.code() == ExitCode::usage ? -1 : error.rank());
  try {
    world.group().barrier();  // a launcher may end rank 0 once another has left
  } catch (const Error&) {    // a peer has left already
  }
  return exit_code(error);
}

int leave_with(const World& world, const Error& error) {
  if (world.size() == 1) {
    print(error, -1);
    return exit_code(error);
  }
  end_by_deadline(kExitDeadline, exit_code(error));
  if (error.shared()) return leave_shared(world, error);
  if (world.rank() != 0) std::this_thread::sleep_for(kPatience);
  print(error, error.code() == ExitCode::usage ? -1 : world.rank());
  world.abort(exit_code(error));
}

// Ranks cannot communicate before init(), and without an MPI launcher there may be no others. Under one, the first rank
// of a host prints a failed communication: a missing driver or library concerns the host.
int leave_without_world(const Error& failure) {
  LaunchInfo place;
  try {
    place = discover_ranks();
  } catch (const Error&) {  // the variables are invalid, as `failure` says
  }
  const bool concerns_host = failure.code() == ExitCode::communication && has_mpi_launcher();
  const bool names_rank = place.rank > 0 && failure.code() != ExitCode::usage;
  if (!concerns_host || place.local_rank == 0) print(failure, names_rank ? place.rank : -1);
  return exit_code(failure);
}

}  // namespace

int run_alone(const std::function<int()>& body) {
  try {
    return body();
  } catch (...) {
    const Error error = current_error();
    if (is_later_mpi_rank()) {
      std::this_thread::sleep_for(kPatience);  // otherwise the launcher would end the first rank before it has printed
    } else {
      print(error, -1);
    }
    return exit_code(error);
  }
}

}  // namespace lt::comm

namespace lt {

int run_program(int argc, char** argv, const std::function<int(const World&)>& body, const MeetingOptions& meeting) {
  std::optional<World> world;
  try {
    world = init(argc, argv, meeting);
  } catch (...) {
    return comm::leave_without_world(comm::current_error());
  }
  try {
    return body(*world);
  } catch (...) {
    return comm::leave_with(*world, comm::current_error());
  }
}

}  // namespace lt
