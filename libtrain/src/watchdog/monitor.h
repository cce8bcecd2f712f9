// A monitor: the connections of all other ranks to this one, and each rank's last status.
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

  // The listener's descriptor; -1 while too many strangers are connected, and after admit_no_more().
  int listener() const;
  // Call it once all ranks know that they are connected. Until then a rank may connect again.
  void admit_no_more();
  // Accepts connections, greetings and rank statuses; never blocks.
  void receive(Clock::time_point now);
  void set_own(const RankStatus& status) { peer(meeting_.rank).status = status; }
  void set_own_step(std::int64_t step) { peer(meeting_.rank).status.step = step; }
  // Call it if this process was stopped for a while: the silence of ranks in that time is not a fault.
  void forgive(Clock::time_point now);
  void send_to_all(Notice kind, const std::string& bytes = {});
  void flush(Clock::time_point deadline);
  // Returns the peers at time `now`. Inspects the processes of local ranks that were silent for `suspicious_s` seconds.
  const std::vector<Peer>& peers(Clock::time_point now, double suspicious_s);
  // Returns the verdict of a rank that judged for itself because no monitor did, and its connection. Call it after
  // receive().
  std::optional<std::pair<std::string, Channel*>> verdict_of_other();
  // True if every rank except `silent` has answered a verdict or is gone.
  bool all_told(const std::vector<int>& silent) const;

 private:
  struct Entry {
    Channel channel;
    Clock::time_point heard;   // time point of its last message
    Clock::time_point closed;  // time point at which its connection was found closed
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
  std::vector<comm::Guest> strangers_;  // have not yet proved that they know the token
};

}  // namespace lt::watchdog
