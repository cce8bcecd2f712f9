// A monitor: the connections of all other ranks to this one, and what each of them said last.
#pragma once

#include <string>
#include <vector>

#include "watchdog/channel.h"
#include "watchdog/diagnosis.h"
#include "watchdog/meeting.h"

namespace lt::watchdog {

class Monitor {
 public:
  explicit Monitor(Meeting& meeting);

  // -1 once all ranks are connected.
  int listener() const { return meeting_.listener ? meeting_.listener->descriptor() : -1; }
  // Takes connections, greetings and boards; never blocks.
  void receive(Clock::time_point now);
  void set_own(const Board& board) { peer(meeting_.rank).board = board; }
  // This process did not run for a while: what it did not hear in that time says nothing.
  void forgive(Clock::time_point now);
  void send_to_all(FrameKind kind, const std::string& bytes = {});
  // As of now; the processes of those that were silent for `suspicious_s` are looked at, where they can be.
  const std::vector<Peer>& peers(Clock::time_point now, double suspicious_s);
  // Whether every rank but these has answered a verdict, or gone.
  bool all_told(const std::vector<int>& silent) const;

 private:
  struct Entry {
    Channel channel;
    Clock::time_point heard;   // last
    Clock::time_point closed;  // when its connection was seen to be
    bool connected = false, told = false;
  };
  struct Stranger {  // who has not said the token yet
    Channel channel;
    Clock::time_point since;
  };
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  void greet(Clock::time_point now);
  void take(int rank, const Frame& frame);

  Meeting& meeting_;
  std::vector<Peer> peers_;
  std::vector<Entry> entries_;  // by rank
  std::vector<Stranger> strangers_;
};

}  // namespace lt::watchdog
