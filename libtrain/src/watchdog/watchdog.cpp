// The watchdog thread of a rank. It sends beats and receives messages; on the two monitors it also checks all ranks.
// Rank 0's monitor decides about the run, and the other one only if rank 0 cannot. If no monitor watches, each rank
// decides for itself.
#include "libtrain/watchdog/watchdog.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/deadline.h"
#include "device/progress.h"
#include "libtrain/error.h"
#include "watchdog/diagnosis.h"
#include "watchdog/leaving.h"
#include "watchdog/meeting.h"
#include "watchdog/monitor.h"

namespace lt::watchdog {
namespace {

constexpr double kBeatsPerHeartbeat = 5;
// Used until all ranks are connected: a greeting does not wake the thread, and a long heartbeat would leave it unread.
constexpr std::chrono::milliseconds kMeetingTick{5};
// A rank that ends, and a verdict, are noticed within this time, however long a heartbeat is.
constexpr std::chrono::milliseconds kMostTick{250};
constexpr std::chrono::milliseconds kSayDeadline{1000}, kToldDeadline{1000}, kLeaveDeadline{2000},
    kGoodbyeDeadline{200};
// If neither monitor watches, nobody decides who speaks. The lowest rank does at once, and each other one gives those
// below it time to end the run: half a heartbeat, because ranks find a fault up to two beats apart, and at least this.
constexpr std::chrono::milliseconds kBetweenSpeakers{100};
constexpr int kMostSpeakers = 20;
// A rank that cannot connect gives up before the timers end the run, because its error says more: a quarter of the time
// left, at most this.
constexpr Clock::duration kMostForError = std::chrono::seconds(5);

// 1 ms at least, and at most 30 years, which a clock can add to the present.
std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::clamp(seconds, 1e-3, 1e9) * 1e3));
}

// Ends the process if the ranks do not meet in time, because one may never arrive.
class MeetingTimer {
 public:
  MeetingTimer(int rank, double init_s) {
    thread_ = std::thread([this, rank, init_s] {
      std::unique_lock lock(mutex_);
      // Rank 0 speaks, or else the lowest rank that is present. The launcher then ends the others.
      const auto turn = kLeaveDeadline * std::min(rank, kMostSpeakers);
      if (met_.wait_for(lock, milliseconds(init_s) + turn, [this] { return done_; })) return;
      comm::run_within(kSayDeadline, [&] {
        say(fmt::format("the ranks did not meet within {} s", init_s),
            "a rank has not started or does not answer; a larger watchdog.init_s waits longer", "");
      });
      leave(static_cast<int>(ExitCode::communication), nullptr);
    });
  }
  ~MeetingTimer() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    met_.notify_one();
    thread_.join();
  }
  MeetingTimer(const MeetingTimer&) = delete;
  MeetingTimer& operator=(const MeetingTimer&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable met_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace

// A monitor as a rank sees it: whether it sends beats.
struct MonitorLink {
  int rank;
  Channel channel;
  Clock::time_point heard;
  Link state = Link::open;  // done or failed once it said goodbye
  RankStatus status = {};   // arrives with its goodbye
};

struct WatchThread {
  WatchThread(const World& world_, const WatchdogOptions& options_);
  ~WatchThread();

  void run();
  // Hands the connections made since the last call to the thread.
  void take_connected();
  void look(Clock::time_point now);
  void listen(MonitorLink& link, Clock::time_point now);
  // Speaks this rank's own verdict, which ends the run.
  [[noreturn]] void speak(const Verdict& verdict);
  // Follows a verdict that another rank has spoken.
  [[noreturn]] void follow(Channel& speaker, const std::string& message);
  void speak_alone(Clock::time_point now);
  std::string folder() const { return has_folder ? record_folder : ""; }

  const World world;
  const WatchdogOptions options;
  const Limits limits{options.heartbeat_s, options.collective_s};
  const int exceptions = std::uncaught_exceptions();
  const int rank = world.rank();
  Meeting meeting;
  std::optional<Monitor> monitor;  // on monitors only
  std::vector<MonitorLink> links;  // used by the thread, once it has taken them from `connected`
  StatusReader reader;
  RankStatus own;
  std::optional<Clock::time_point> found_alone;  // when speak_alone() found the fault

  std::string record_folder;  // unchanged once `has_folder` is true
  std::atomic<bool> has_folder{false};

  std::mutex mutex;
  std::vector<MonitorLink> connected;
  std::atomic<bool> armed{false}, stops{false};  // armed: all ranks are connected
  const io::Descriptor wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::thread thread;
};

WatchThread::WatchThread(const World& world_, const WatchdogOptions& options_) : world(world_), options(options_) {
  const MeetingTimer timer(rank, options.init_s);
  const auto end = Clock::now() + milliseconds(options.init_s);
  meeting = meet(world.group());
  const auto deadline = end - std::min((end - Clock::now()) / 4, kMostForError);
  if (meeting.is_monitor(rank)) monitor.emplace(meeting);
  thread = std::thread([this] { run(); });
  try {
    collectively(world.group(), [&] {
      for (const int other : meeting.monitors) {
        if (other == rank) continue;
        MonitorLink link{other, connect_to(meeting, other, deadline), Clock::now()};
        const std::lock_guard lock(mutex);
        connected.push_back(std::move(link));
      }
    });
  } catch (...) {
    stops = true;
    thread.join();
    throw;
  }
  armed = true;
}

WatchThread::~WatchThread() {
  stops = true;
  const std::uint64_t one = 1;
  while (::write(wake.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread.join();
  take_connected();
  const std::string how = std::uncaught_exceptions() > exceptions ? "failed" : "done";
  const auto deadline = Clock::now() + kGoodbyeDeadline;
  // A rank may wait for others in a call that this one had come to.
  const std::string last = encode(last_status());
  for (const auto& [kind, bytes] : {std::pair{Notice::status, last}, {Notice::goodbye, how}}) {
    for (MonitorLink& link : links) link.channel.send(kind, bytes);
    if (monitor) monitor->send_to_all(kind, bytes);
  }
  for (MonitorLink& link : links) link.channel.flush(deadline);
  if (monitor) monitor->flush(deadline);
}

void WatchThread::run() {
  ::pthread_setname_np(::pthread_self(), "lt-watchdog");  // shown by debuggers and top
  const auto beat = milliseconds(options.heartbeat_s / kBeatsPerHeartbeat), tick = std::min(beat / 2, kMostTick);
  auto last = Clock::now(), next_beat = last;
  while (!stops) {
    if (monitor && armed) monitor->admit_no_more();
    pollfd entries[] = {{wake.get(), POLLIN, 0}, {monitor ? monitor->listener() : -1, POLLIN, 0}};
    const auto patience = armed ? tick : std::min(tick, kMeetingTick);
    ::poll(entries, 2, static_cast<int>(std::max<std::int64_t>(1, patience.count())));
    if (stops) break;
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last).count();
    // After a stopped process or a suspended machine, silence means nothing.
    const bool paused = seconds > options.heartbeat_s / 2;
    last = now;
    take_connected();
    if (monitor) monitor->receive(now);
    if (const auto told = monitor ? monitor->verdict_of_other() : std::nullopt) follow(*told->second, told->first);
    if (paused) {
      device::count_pause(seconds);
      if (monitor) monitor->forgive(now);
      for (MonitorLink& link : links) {
        if (link.state == Link::open) link.heard = now;
      }
    }
    for (MonitorLink& link : links) listen(link, now);
    if (now < next_beat && !paused) {
      if (monitor && armed) look(now);
      continue;
    }
    const auto since_beat = now - (next_beat - beat);
    next_beat = now + beat;
    own = reader.read(std::chrono::duration<double>(since_beat).count(), paused);
    const std::string bytes = encode(own);
    for (MonitorLink& link : links) link.channel.send(Notice::status, bytes);
    if (monitor) {
      monitor->set_own(own);
      monitor->send_to_all(Notice::pulse);
      if (armed) look(now);
    } else {
      speak_alone(now);
    }
  }
}

void WatchThread::take_connected() {
  const std::lock_guard lock(mutex);
  for (MonitorLink& link : connected) links.push_back(std::move(link));
  connected.clear();
}

void WatchThread::listen(MonitorLink& link, Clock::time_point now) {
  for (const Message& frame : link.channel.receive()) {
    link.heard = now;
    if (frame.kind == Notice::verdict) follow(link.channel, frame.bytes);
    if (frame.kind == Notice::goodbye) link.state = frame.bytes == "done" ? Link::done : Link::failed;
    if (frame.kind != Notice::status) continue;
    if (auto status = decode(frame.bytes)) link.status = std::move(*status);
  }
}

void WatchThread::look(Clock::time_point now) {
  monitor->set_own_step(device::read_progress().step);  // newer than the last status, where steps are short
  const std::vector<Peer>& peers = monitor->peers(now, options.heartbeat_s / 2);
  const auto verdict = diagnose(peers, limits);
  if (!verdict) return;
  const bool first_watches = peers[0].link == Link::open && peers[0].silent_s <= options.heartbeat_s;
  if (rank == 0 || !first_watches) speak(*verdict);
}

void WatchThread::speak_alone(Clock::time_point now) {
  std::vector<Peer> peers;
  for (const MonitorLink& link : links) {
    const double silent_s = std::chrono::duration<double>(now - link.heard).count();
    if (link.state == Link::open && silent_s <= options.heartbeat_s) {  // it watches
      found_alone.reset();
      return;
    }
    const RankProcess& process = meeting.processes[static_cast<std::size_t>(link.rank)];
    const bool is_gone = link.state == Link::open && !link.channel.is_open();
    peers.push_back(
        {link.rank, process.host, process.pid, is_gone ? Link::closed : link.state, silent_s, {}, false, link.status});
  }
  if (peers.empty()) return;
  const RankProcess& process = meeting.processes[static_cast<std::size_t>(rank)];
  peers.push_back({rank, process.host, process.pid, Link::open, 0, {}, false, own});
  const auto verdict = diagnose(peers, limits);
  if (!verdict) {
    found_alone.reset();
    return;
  }
  if (!found_alone) found_alone = now;
  const int before = rank - (meeting.monitors[1] < rank ? 2 : 1);  // lower ranks that are no monitors
  const auto turn = std::max(kBetweenSpeakers, milliseconds(options.heartbeat_s / 2));
  if (now - *found_alone >= turn * std::min(before, kMostSpeakers)) speak(*verdict);
}

void WatchThread::speak(const Verdict& verdict) {
  ignore_signals();
  comm::run_within(kSayDeadline, [&] {
    say(verdict.message, verdict.hint, folder());
    write_last_calls(verdict.message, rank, folder(), true);
  });
  if (monitor) {
    monitor->send_to_all(Notice::verdict, verdict.message);
    for (const auto deadline = Clock::now() + kToldDeadline; Clock::now() < deadline;) {
      monitor->receive(Clock::now());
      if (monitor->all_told(verdict.fault == Fault::silent ? verdict.ranks : std::vector<int>())) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  } else {
    // A stopped monitor reads it if the launcher lets the process continue in order to end it.
    for (MonitorLink& link : links) link.channel.send(Notice::verdict, verdict.message);
    for (MonitorLink& link : links) link.channel.flush(Clock::now() + kGoodbyeDeadline);
  }
  leave(static_cast<int>(ExitCode::restart), &world);
}

void WatchThread::follow(Channel& speaker, const std::string& message) {
  ignore_signals();
  comm::run_within(kSayDeadline, [&] { write_last_calls(message, rank, folder(), false); });
  speaker.send(Notice::told);
  // The rank that speaks ends the run.
  speaker.await_end(Clock::now() + kLeaveDeadline);
  leave(static_cast<int>(ExitCode::restart), nullptr);
}

}  // namespace lt::watchdog

namespace lt {

struct Watchdog::Impl : watchdog::WatchThread {
  using WatchThread::WatchThread;
};

Watchdog::Watchdog(const World& world, const WatchdogOptions& options) {
  for (const auto& [name, seconds] : {std::pair{"heartbeat_s", options.heartbeat_s},
                                      {"collective_s", options.collective_s},
                                      {"init_s", options.init_s}}) {
    if (seconds > 0 && std::isfinite(seconds)) continue;
    throw UsageError("watchdog", fmt::format("{}: expected a number of seconds above 0, got {}", name, seconds));
  }
  if (world.size() > 1) impl_ = std::make_unique<Impl>(world, options);
}
Watchdog::~Watchdog() = default;

void Watchdog::write_to(std::string folder) {
  if (impl_ == nullptr) return;
  if (impl_->has_folder) throw InternalError("watchdog", "write_to: expected one call, got a second one");
  impl_->record_folder = std::move(folder);
  impl_->has_folder = true;
}

}  // namespace lt
