// A program on several ranks with a watchdog. The rank given by the second argument performs the mode given by the
// first, at step 3, before the first step or after the last one. Lists such as "end,stop 0,1" give several.
//   watched_program MODES RANKS HEARTBEAT_S COLLECTIVE_S [FOLDER]
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "device/progress.h"
#include "libtrain/comm/program.h"
#include "libtrain/device/phase.h"
#include "libtrain/error.h"
#include "libtrain/watchdog/watchdog.h"

namespace {

constexpr int kSteps = 5, kFaultStep = 3;
constexpr std::chrono::seconds kForEver{1000};

bool is_deaf = false;  // accepts no connection of the watchdog

void sleep_in(lt::Phase phase, std::chrono::milliseconds time) {
  const lt::PhaseScope scope(phase);
  std::this_thread::sleep_for(time);
}

int listeners() {
  int count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0) count += listens;
  }
  return count;
}

// Whether the watchdog stops listening after the start.
bool comes_to(int count) {
  for (int i = 0; i < 1000 && listeners() != count; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return listeners() == count;
}

std::vector<std::string> parts_of(const std::string& list) {
  std::istringstream stream(list);
  std::vector<std::string> parts;
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

int run(const lt::World& world, int argc, char** argv) {
  if (argc < 5) return 2;
  const std::vector<std::string> modes = parts_of(argv[1]), ranks = parts_of(argv[2]);
  std::string mode = modes[0];
  bool strikes = false;
  for (std::size_t i = 0; i < ranks.size() && !strikes; ++i) {
    strikes = world.rank() == std::stoi(ranks[i]);
    if (strikes && i < modes.size()) mode = modes[i];
  }
  const double collective_s = std::atof(argv[4]);
  if (strikes && mode == "late") std::this_thread::sleep_for(kForEver);
  is_deaf = strikes && mode == "deaf";
  const double init_s = mode == "late" ? 1 : mode == "deaf" ? 2 : 60;
  const int listeners_before = listeners();
  std::optional<lt::Watchdog> watchdog(std::in_place, world,
                                       lt::WatchdogOptions{std::atof(argv[3]), collective_s, init_s});
  if (argc > 5) watchdog->write_to(argv[5]);
  if (strikes && mode == "listen" && !comes_to(listeners_before)) throw lt::CommError("the watchdog still listens");
  // Open MPI's launcher sometimes crashes if some ranks are in MPI_Finalize while another one aborts.
  const auto say_goodbye = [&] {
    watchdog.reset();
    std::this_thread::sleep_for(kForEver);
  };
  const lt::Group gather = world.group().duplicate("gather"), other = world.group().duplicate("other");
  const lt::Tensor full = lt::Tensor::zeros({1 << 16}, lt::DType::f32);
  const lt::Size part = lt::Group::part_size(full.elements(), world.size(), world.rank());
  const lt::Tensor mine = full.narrow(0, lt::Group::part_begin(full.elements(), world.size(), world.rank()), part);
  for (int step = 1; step <= kSteps; ++step) {
    lt::device::begin_step(step);
    const lt::PhaseScope phase(lt::Phase::step);
    const bool now = strikes && step == kFaultStep;
    if (now && mode == "stop") std::raise(SIGSTOP);
    if (now && mode == "sleep") sleep_in(lt::Phase::forward, kForEver);
    if (now && mode == "save")
      sleep_in(lt::Phase::save, std::chrono::milliseconds(static_cast<int>(3e3 * collective_s)));
    if (now && mode == "end") return 0;
    if (now && mode == "goodbye") say_goodbye();
    if (now && mode == "throw") throw lt::DataError("test", "step 3 fails");
    if (mode == "cross" && step == kFaultStep) (strikes ? gather : other).barrier();
    gather.all_gather("blocks.3", full, mine).wait();
    if (now && mode == "call") gather.barrier();
    gather.all_reduce("norm", full.narrow(0, 0, 1 << 10), lt::DType::f32);
  }
  if (strikes && mode == "linger") sleep_in(lt::Phase::forward, kForEver);
  if (mode == "linger") say_goodbye();
  return 0;
}

}  // namespace

// Takes the place of the C library's.
extern "C" int accept4(int listening, sockaddr* address, socklen_t* size, int flags) {
  if (!is_deaf) return static_cast<int>(::syscall(SYS_accept4, listening, address, size, flags));
  errno = EAGAIN;
  return -1;
}

int main(int argc, char** argv) {
  return lt::run_program(argc, argv, [&](const lt::World& world) { return run(world, argc, argv); });
}
