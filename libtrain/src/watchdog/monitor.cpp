// Greets ranks that know the token, reads rank statuses, and keeps the time of each rank's last message.
#include "watchdog/monitor.h"

#include <algorithm>
#include <utility>

#include "io/descriptor.h"

namespace lt::watchdog {
namespace {

constexpr std::chrono::seconds kStrangerPatience{5};
constexpr std::size_t kMostStrangers = 256;
// A closed connection counts only after this time: the other monitor's verdict may be in flight and explain it.
constexpr std::chrono::milliseconds kCloseGrace{500};

}  // namespace

Monitor::Monitor(Meeting& meeting) : meeting_(meeting), entries_(meeting.processes.size()) {
  io::allow_descriptors(meeting.processes.size());
  for (std::size_t r = 0; r < meeting.processes.size(); ++r) {
    peers_.push_back(
        {static_cast<int>(r), meeting.processes[r].host, meeting.processes[r].pid, Link::open, 0, {}, false, {}});
  }
}

int Monitor::listener() const {
  return meeting_.listener && strangers_.size() < kMostStrangers ? meeting_.listener->handles().front().get() : -1;
}

void Monitor::greet(Clock::time_point now) {
  if (!meeting_.listener) return;
  for (bool is_full = false; strangers_.size() < kMostStrangers;) {
    auto connected =
        comm::TcpListener::accept(meeting_.listener->handles().front(), is_full, comm::TcpPatience::unlimited);
    if (!connected) break;
    strangers_.emplace_back(std::move(*connected), now);
  }
  std::vector<comm::Guest> staying;
  for (comm::Guest& guest : strangers_) {
    const comm::Guest::State state = guest.hear(meeting_.rank, meeting_.size(), meeting_.token_of(meeting_.rank));
    if (state == comm::Guest::State::welcome) welcome(guest, now);
    if (state == comm::Guest::State::greets && now - guest.since() <= kStrangerPatience)
      staying.push_back(std::move(guest));
  }
  strangers_ = std::move(staying);
}

void Monitor::welcome(comm::Guest& guest, Clock::time_point now) {
  Entry& entry = entries_[static_cast<std::size_t>(guest.rank())];
  // A rank that was not welcomed in time has closed its connection and comes with another one.
  if (entry.channel.is_open()) return;
  io::Descriptor link = guest.welcomed();
  if (link.is_open()) entry.channel = Channel(std::move(link)), entry.connected = true, entry.heard = now;
}

void Monitor::admit_no_more() {
  meeting_.listener.reset();
  strangers_.clear();
}

void Monitor::receive(Clock::time_point now) {
  for (std::size_t r = 0; r < entries_.size(); ++r) {
    Entry& entry = entries_[r];
    if (!entry.channel.is_open()) continue;
    const std::vector<Message> frames = entry.channel.receive();
    if (!frames.empty() && peer(static_cast<int>(r)).link == Link::open) entry.heard = now;
    for (const Message& frame : frames) take(static_cast<int>(r), frame);
    if (!entry.channel.is_open()) entry.closed = now;
  }
  greet(now);  // last, because a rank comes again once its connection has closed
}

void Monitor::take(int rank, const Message& frame) {
  Entry& entry = entries_[static_cast<std::size_t>(rank)];
  if (frame.kind == Notice::told) entry.told = true;
  if (frame.kind == Notice::verdict) entry.verdict = frame.bytes;
  if (frame.kind == Notice::goodbye) peer(rank).link = frame.bytes == "done" ? Link::done : Link::failed;
  if (frame.kind != Notice::status) return;
  auto status = decode(frame.bytes);
  if (!status) return;
  peer(rank).status = std::move(*status);
}

void Monitor::forgive(Clock::time_point now) {
  for (std::size_t r = 0; r < entries_.size(); ++r) {
    if (peer(static_cast<int>(r)).link == Link::open) entries_[r].heard = now;
  }
}

void Monitor::send_to_all(Notice kind, const std::string& bytes) {
  for (Entry& entry : entries_) entry.channel.send(kind, bytes);
}

void Monitor::flush(Clock::time_point deadline) {
  for (Entry& entry : entries_) entry.channel.flush(deadline);
}

const std::vector<Peer>& Monitor::peers(Clock::time_point now, double suspicious_s) {
  for (Peer& peer : peers_) {
    const Entry& entry = entries_[static_cast<std::size_t>(peer.rank)];
    peer.state.clear(), peer.is_traced = false;
    if (!entry.connected || peer.link == Link::closed) continue;
    if (peer.link == Link::open && !entry.channel.is_open()) {
      if (now - entry.closed > kCloseGrace) peer.link = Link::closed;
      continue;
    }
    peer.silent_s = std::chrono::duration<double>(now - entry.heard).count();
    if (peer.link != Link::open || peer.silent_s < suspicious_s || !meeting_.is_local(peer.rank)) continue;
    ProcessState state = process_state(peer.pid);
    peer.state = std::move(state.text), peer.is_traced = state.is_traced;
  }
  return peers_;
}

std::optional<std::pair<std::string, Channel*>> Monitor::verdict_of_other() {
  for (Entry& entry : entries_) {
    if (entry.verdict) return std::pair{*entry.verdict, &entry.channel};
  }
  return std::nullopt;
}

bool Monitor::all_told(const std::vector<int>& silent) const {
  for (std::size_t r = 0; r < entries_.size(); ++r) {
    const bool is_silent = std::find(silent.begin(), silent.end(), static_cast<int>(r)) != silent.end();
    if (entries_[r].channel.is_open() && !entries_[r].told && !is_silent) return false;
  }
  return true;
}

}  // namespace lt::watchdog
