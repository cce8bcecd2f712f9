// A monitor: the connections of all other ranks to this one, and each rank's last report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "watchdog/channel.h"
#include "watchdog/diagnosis.h"
#include "watchdog/meeting.h"

namespace lt::watchdog {

class Monitor {
 public:
  explicit Monitor(Meeting& meeting);

  // The listener's descriptor; -1 while there is no room for strangers, and after admit_no_more().
  int listener() const;
  // Call it once all ranks know that they are connected. Until then a rank may come again.
  void admit_no_more();
  // Takes connections, greetings and boards; never blocks.
  void receive(Clock::time_point now);
  void set_own(const Board& board) { peer(meeting_.rank).board = board; }
  void set_own_step(std::int64_t step) { peer(meeting_.rank).board.step = step; }
  // Call it when this process did not run for a while: silence in that time means nothing.
  void forgive(Clock::time_point now);
  void send_to_all(Notice kind, const std::string& bytes = {});
  void flush(Clock::time_point deadline);
  // The peers as of `now`. Inspects the processes of ranks on this machine that were silent for `suspicious_s`.
  const std::vector<Peer>& peers(Clock::time_point now, double suspicious_s);
  // The verdict of a rank that found no monitor watching, and its connection; call it after receive().
  std::optional<std::pair<std::string, Channel*>> verdict_of_other();
  // Whether every rank except `silent` has answered a verdict or gone.
  bool all_told(const std::vector<int>& silent) const;

 private:
  struct Entry {
    Channel channel;
    Clock::time_point heard;   // when it was last heard from
    Clock::time_point closed;  // when its connection was seen closed
    bool connected = false, told = false;
    std::optional<std::string> verdict = {};
  };
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  void greet(Clock::time_point now);
  void welcome(comm::Guest& guest, Clock::time_point now);
  void take(int rank, const Message& frame);

  Meeting& meeting_;
  std::vector<Peer> peers_;
  std::vector<Entry> entries_;          // by rank
  std::vector<comm::Guest> strangers_;  // that have not proved yet that they know the token
};

}  // namespace lt::watchdog
