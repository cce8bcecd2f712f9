// Measures the watchdog's cost over SECONDS: nanoseconds per logged call and per phase, and processor time of its
// thread. With RANKS, measures instead the cost of a monitor that gets heartbeats of RANKS ranks.
//   watchdog_cost SECONDS [RANKS]
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "comm/call_log.h"
#include "device/progress.h"
#include "watchdog/diagnosis.h"
#include "watchdog/monitor.h"

namespace {

using namespace lt::watchdog;

template <class Body>
double nanoseconds_of(Body&& body) {
  constexpr int kTimes = 2000000;
  const auto begin = Clock::now();
  for (int i = 0; i < kTimes; ++i) body();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kTimes;
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void monitor_of(int ranks, double seconds) {
  const lt::comm::MeetingToken token = lt::comm::MeetingToken{1, 2, 3};
  const auto met = [&](int rank) {
    Meeting meeting;
    meeting.rank = rank, meeting.tokens = {token, token}, meeting.monitors = {0, 1};
    meeting.processes.assign(static_cast<std::size_t>(ranks), own_process());
    return meeting;
  };
  Meeting meeting = met(0);
  meeting.listener = lt::comm::TcpListener::at_free_port(true);
  Monitor monitor(meeting);
  Meeting other = met(1);
  other.addresses = {std::to_string(meeting.listener->port()), ""};
  std::vector<Channel> channels;
  std::atomic<bool> all_connected{false};
  const auto begin = Clock::now();
  std::thread connecting([&] {
    for (other.rank = 1; other.rank < ranks; ++other.rank) {
      channels.push_back(connect_to(other, 0, begin + std::chrono::minutes(2)));
    }
    all_connected = true;
  });
  while (!all_connected) {
    monitor.receive(Clock::now());
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  connecting.join();
  std::printf("%d ranks connected in %.2f s\n", ranks, std::chrono::duration<double>(Clock::now() - begin).count());
  const auto beat = [&](const RankStatus& status, const char* what) {
    const std::string bytes = encode(status);
    double spent = 0;
    int beats = 0;
    for (const auto end = Clock::now() + std::chrono::duration<double>(seconds); Clock::now() < end; ++beats) {
      for (Channel& channel : channels) channel.send(Notice::status, bytes);
      const double before = cpu_seconds();
      monitor.receive(Clock::now());
      monitor.send_to_all(Notice::pulse);
      static_cast<void>(diagnose(monitor.peers(Clock::now(), 2.5), {}));
      spent += cpu_seconds() - before;
      for (Channel& channel : channels) channel.receive();
    }
    std::printf("%s: %zu bytes a status, %.2f ms of processor time a beat of all ranks, %d beats\n", what, bytes.size(),
                spent / beats * 1e3, beats);
  };
  RankStatus status;
  beat(status, "ranks that get on");
  status.still_s = 20, status.phase = lt::Phase::save;
  for (std::uint64_t g = 0; g < 6; ++g) {
    GroupStatus group{g, 0, 1, static_cast<std::uint32_t>(ranks), "gather", 0, 813, {}};
    for (std::uint64_t c = 805; c < 813; ++c) {
      group.calls.push_back({c, lt::CollectiveOp::all_gather, "blocks.17 parameters", 24 << 20, true});
    }
    status.groups.push_back(group);
  }
  beat(status, "ranks that stand still");
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  lt::comm::CallLog log({0, 2, 0, 2, "reduce"});
  std::printf("a call, begin and end: %.0f ns\n", nanoseconds_of([&] {
                log.end(log.begin(lt::CollectiveOp::reduce_scatter, "blocks.3 gradients", 1, 1));
              }));
  std::printf("a phase: %.0f ns\n", nanoseconds_of([] { const lt::PhaseScope phase(lt::Phase::forward); }));
  StatusReader reader;
  std::printf("a status: %.0f ns\n", nanoseconds_of([&] { static_cast<void>(encode(reader.read(1, false))); }));
  if (argc > 2) monitor_of(std::atoi(argv[2]), seconds);
}
