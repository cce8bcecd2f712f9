// Rank 0's handling of the messages of all groups. It collects the messages of an exchange by channel and answers all
// members after the last message. It does not use sockets. Each member has at most one exchange per channel in flight,
// so memory is bounded by the messages that members sent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/tcp/tcp_frames.h"

namespace lt::comm {

// The channel of all ranks of the run.
constexpr std::uint64_t kWorldChannel = 0;

class Switchboard {
 public:
  using Answer = std::function<void(int rank, const Frame& frame)>;

  Switchboard(int ranks, Answer answer);
  // Takes a message from `rank` of the run. Throws CommError for a message that a correct rank cannot send.
  void take(int rank, Frame frame);
  // Reports that `rank` is gone. Exchanges that wait for it fail on all of their members.
  void lose(int rank, const std::string& why);

 private:
  struct Channel {
    std::vector<int> members;      // ranks in the run, ascending; empty: not yet known
    std::map<int, Frame> waiting;  // by rank in the run
  };

  void open(int rank, const Frame& frame);
  void settle(std::uint64_t number);
  void answer_all(const Channel& channel, const Frame& frame);
  // Ends an all_to_all: sends each member the texts that all members have for it.
  void answer_each(const Channel& channel, const FrameHeader& header, const std::map<int, Frame>& all);
  void fail(std::uint64_t number, FrameKind kind, const std::string& why);
  // True if a started exchange cannot finish without that rank.
  static bool is_missing(const Channel& channel, int rank);
  // Why the members' frames do not belong to one exchange; empty if they do.
  static std::string mismatch(const Channel& channel);

  Answer answer_;
  std::map<std::uint64_t, Channel> channels_;
  std::vector<std::pair<int, std::string>> lost_;  // in order; the first loss caused the later ones
  int ranks_;
};

}  // namespace lt::comm
