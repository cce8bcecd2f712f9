// One message for a run, whatever the number of ranks.
#include "libtrain/comm/program.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "comm/tcp_world.h"
#include "libtrain/error.h"

namespace lt {
namespace {

// A peer may be gone or hang: no rank is longer on its way out.
constexpr std::chrono::seconds kExitDeadline{10};
// Most errors come to all ranks alike. The other ranks leave rank 0 this time to speak and to end the run.
constexpr std::chrono::seconds kPatience{2};

// Without a rank where `rank` is negative.
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

// Whatever this rank waits for on its way out: other ranks, the launcher, whoever reads what it prints.
void end_by_deadline(int code) {
  std::thread([code] {
    std::this_thread::sleep_for(kExitDeadline);
    std::_Exit(code);
  }).detach();
}

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
  end_by_deadline(exit_code(error));
  if (error.shared()) return leave_shared(world, error);
  if (world.rank() != 0) std::this_thread::sleep_for(kPatience);
  print(error, error.code() == ExitCode::usage ? -1 : world.rank());
  world.abort(exit_code(error));
}

// In the handler of what the body threw.
int leave(const World& world) {
  try {
    throw;
  } catch (const Error& error) {
    return leave_with(world, error);
  } catch (const std::bad_alloc&) {
    return leave_with(world, InternalError("internal", "out of memory"));
  } catch (const std::exception& error) {
    return leave_with(world, InternalError("internal", error.what()));
  } catch (...) {
    return leave_with(world, InternalError("internal", "an exception that is no std::exception"));
  }
}

// Before init() no rank can speak to another. What all of them find alike is rank 0's to say.
int leave_without_world(const Error& failure) {
  int rank = 0;
  try {
    rank = discover_ranks().rank;
  } catch (const Error&) {  // the variables make no sense, which is what `failure` says
  }
  if (rank == 0) {
    print(failure, -1);
  } else if (dynamic_cast<const MeetingError*>(&failure) != nullptr) {
    print(failure, rank);
  }
  return exit_code(failure);
}

}  // namespace

int run_program(int argc, char** argv, const std::function<int(const World&)>& body, const MeetingOptions& meeting) {
  std::optional<World> world;
  try {
    world = init(argc, argv, meeting);
  } catch (const Error& error) {
    return leave_without_world(error);
  }
  try {
    return body(*world);
  } catch (...) {
    return leave(*world);
  }
}

}  // namespace lt
