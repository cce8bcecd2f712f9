// A group's exchanges are messages with its channel number, which all members compute alike.
#include "comm/tcp_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <numeric>
#include <utility>
#include <vector>

#include "comm/siphash.h"
#include "comm/tcp_exchange.h"
#include "comm/tcp_frames.h"
#include "comm/tcp_switchboard.h"
#include "libtrain/error.h"

namespace lt {
namespace {

// A number unique to a group of the run: a hash of its parent, the number of the parent's split, and the group's first
// rank. Rank 0 would notice if two collided in 64 bits.
std::uint64_t channel_of(std::uint64_t parent, std::uint64_t split, int first_rank) {
  const std::array<std::uint64_t, 3> path{parent, split, static_cast<std::uint64_t>(first_rank)};
  return siphash({}, {reinterpret_cast<const char*>(path.data()), sizeof path});
}

class TcpBackend final : public GroupBackend {
 public:
  // `members`: their ranks in the run.
  TcpBackend(GroupPlace place, std::shared_ptr<TcpExchange> exchange, std::uint64_t channel, std::vector<int> members)
      : GroupBackend(std::move(place)),
        exchange_(std::move(exchange)),
        channel_(channel),
        members_(std::move(members)) {
    if (channel_ == kWorldChannel || rank() > 0) return;
    std::string payload(reinterpret_cast<const char*>(members_.data()), members_.size() * sizeof(int));
    exchange_->tell(Frame(header(FrameKind::open_channel, 0), std::move(payload)));
  }
  ~TcpBackend() override {
    if (channel_ == kWorldChannel || rank() > 0 || std::uncaught_exceptions() > 0) return;
    exchange_->tell(Frame(header(FrameKind::close_channel, 0), {}));
  }

  bool takes(Device) const override { return false; }
  std::unique_ptr<Transfer> all_gather(const AllGatherCall&) override { refuse(); }
  std::unique_ptr<Transfer> reduce_scatter(const ReduceScatterCall&) override { refuse(); }
  std::unique_ptr<Transfer> all_to_all(const AllToAllCall&) override { refuse(); }
  std::unique_ptr<Transfer> broadcast(const BroadcastCall&) override { refuse(); }
  void barrier() override { all_gather_bytes({}); }
  std::vector<std::string> all_gather_bytes(const std::string& mine) override {
    return unpack_texts(*exchange(FrameKind::gather, 0, mine).payload, size());
  }
  std::string broadcast_bytes(const std::string& value, int root) override {
    return *exchange(FrameKind::broadcast, root, rank() == root ? value : std::string()).payload;
  }

  std::shared_ptr<GroupBackend> split(const std::vector<int>& colors, std::string name) override {
    return split_into(split_place(colors, std::move(name)), colors);
  }
  // Ranks that wait for a message sleep in any case.
  std::shared_ptr<GroupBackend> duplicate_patient(std::string name) override {
    return split_into(patient_place(std::move(name)), std::vector<int>(members_.size()));
  }

 private:
  [[noreturn]] static void refuse() { throw InternalError("comm", "ranks that met over TCP exchange no tensors"); }

  std::string in_group(const Error& error) const { return fmt::format("group {}: {}", place().name, error.what()); }

  FrameHeader header(FrameKind kind, int root) const {
    FrameHeader made;
    made.kind = kind, made.root = static_cast<std::uint32_t>(root), made.channel = channel_;
    made.leader = static_cast<std::uint32_t>(members_.front());
    return made;
  }

  Frame exchange(FrameKind kind, int root, const std::string& mine) {
    if (mine.size() > kMostMessageBytes) {
      throw CommError(fmt::format("group {}: expected a message of at most {} bytes, got {}", place().name,
                                  kMostMessageBytes, mine.size()));
    }
    FrameHeader header = this->header(kind, root);
    header.sequence = exchanges_++;
    try {
      return exchange_->ask(Frame(header, mine));
    } catch (const LostPeerError& error) {
      throw LostPeerError(in_group(error), error.hint());
    } catch (const CommError& error) {
      throw CommError(in_group(error), error.hint());
    }
  }

  std::shared_ptr<GroupBackend> split_into(GroupPlace place, const std::vector<int>& colors) {
    std::vector<int> members;
    for (std::size_t r = 0; r < colors.size(); ++r) {
      if (colors[r] == colors[static_cast<std::size_t>(rank())]) members.push_back(members_[r]);
    }
    const std::uint64_t channel = channel_of(channel_, splits_++, members.front());
    if (place.size == 1) return make_self_backend(std::move(place));
    return std::make_shared<TcpBackend>(std::move(place), exchange_, channel, std::move(members));
  }

  std::shared_ptr<TcpExchange> exchange_;
  std::uint64_t channel_, exchanges_ = 0, splits_ = 0;
  std::vector<int> members_;
};

}  // namespace

std::shared_ptr<GroupBackend> make_tcp_world_backend(const TcpMeeting& meeting) {
  GroupPlace place{meeting.rank, meeting.size, meeting.rank, meeting.size, "world"};
  std::vector<int> members(static_cast<std::size_t>(meeting.size));
  std::iota(members.begin(), members.end(), 0);
  auto exchange = make_tcp_exchange(meeting.rank, meet_over_tcp(meeting));
  return std::make_shared<TcpBackend>(std::move(place), std::move(exchange), kWorldChannel, std::move(members));
}

}  // namespace lt
