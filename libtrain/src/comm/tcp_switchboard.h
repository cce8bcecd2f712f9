// What rank 0 does with the messages of all groups: it collects those of an exchange by their channel, and answers all
// members once the last has come. It knows no sockets. Each member has one exchange of a channel under way at most,
// so what is collected is bounded by what the members sent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/tcp_frames.h"

namespace lt {

// The channel of all ranks of the run.
constexpr std::uint64_t kWorldChannel = 0;

class Switchboard {
 public:
  using Answer = std::function<void(int rank, const Frame& frame)>;

  Switchboard(int ranks, Answer answer);
  // What `rank` of the run has sent. Throws CommError for what no rank of ours would send.
  void take(int rank, Frame frame);
  // That rank is no more: an exchange that it does not complete fails for all of its members.
  void lose(int rank, const std::string& why);

 private:
  struct Channel {
    std::vector<int> members;      // ranks of the run, ascending; empty: not yet known
    std::map<int, Frame> waiting;  // by rank of the run
  };

  void open(int rank, const Frame& frame);
  void settle(std::uint64_t number);
  void fail(std::uint64_t number, const std::string& why);
  // Whether an exchange that has begun cannot end without that rank.
  static bool is_missing(const Channel& channel, int rank);
  // Why the members' frames are not of one exchange; empty where they are.
  static std::string mismatch(const Channel& channel);

  Answer answer_;
  std::map<std::uint64_t, Channel> channels_;
  std::vector<std::pair<int, std::string>> lost_;  // the first is the reason that others followed
  int ranks_;
};

}  // namespace lt
