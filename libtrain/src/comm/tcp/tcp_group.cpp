// A group's exchanges are messages with its channel number, which every member computes for itself. A thread of the
// group runs exchanges of tensors in call order, so that several can be in flight.
#include "comm/tcp/tcp_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/message_group.h"
#include "comm/siphash.h"
#include "comm/tcp/tcp_exchange.h"
#include "comm/tcp/tcp_frames.h"
#include "comm/tcp/tcp_switchboard.h"
#include "device/background_thread.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

// A number unique to a group of the run: a hash of its parent, the number of the parent's split, and the group's first
// rank. Rank 0 would notice if two collided in 64 bits.
std::uint64_t channel_of(std::uint64_t parent, std::uint64_t split, int first_rank) {
  const std::array<std::uint64_t, 3> path{parent, split, static_cast<std::uint64_t>(first_rank)};
  return siphash({}, {reinterpret_cast<const char*>(path.data()), sizeof path});
}

Size message_bytes = Size{16} << 20;

// Sends a group's frames and waits for rank 0's answers, one exchange at a time.
class Channel {
 public:
  // `members`: their ranks in the run. The group's first member opens its channel.
  Channel(std::string group, std::shared_ptr<TcpExchange> exchange, std::uint64_t number, std::vector<int> members,
          bool is_leader)
      : group_(std::move(group)),
        exchange_(std::move(exchange)),
        number_(number),
        members_(std::move(members)),
        opens_(is_leader && number != kWorldChannel) {
    if (!opens_) return;
    std::string payload(reinterpret_cast<const char*>(members_.data()), members_.size() * sizeof(int));
    exchange_->tell(Frame(header(FrameKind::open_channel, 0), std::move(payload)));
  }
  ~Channel() {
    if (opens_ && std::uncaught_exceptions() == 0) exchange_->tell(Frame(header(FrameKind::close_channel, 0), {}));
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  const std::shared_ptr<TcpExchange>& exchange() const { return exchange_; }
  std::uint64_t number() const { return number_; }
  const std::vector<int>& members() const { return members_; }
  int size() const { return static_cast<int>(members_.size()); }

  std::vector<std::string> gather(const std::string& mine) {
    return unpack_texts(*ask(FrameKind::gather, 0, mine).payload, size());
  }
  // `mine` counts on member `root` alone.
  std::string broadcast(const std::string& mine, int root) { return *ask(FrameKind::broadcast, root, mine).payload; }
  // Sends texts[r] to member r. Returns each member's text for this rank.
  std::vector<std::string> all_to_all(const std::vector<std::string>& texts) {
    std::vector<const std::string*> each;
    for (const std::string& text : texts) each.push_back(&text);
    return unpack_texts(*ask(FrameKind::all_to_all, 0, pack_texts(each)).payload, size());
  }

 private:
  FrameHeader header(FrameKind kind, int root) const {
    FrameHeader made;
    made.kind = kind, made.root = static_cast<std::uint32_t>(root), made.channel = number_;
    made.leader = static_cast<std::uint32_t>(members_.front());
    return made;
  }

  Frame ask(FrameKind kind, int root, const std::string& mine) {
    if (mine.size() > kMostMessageBytes) {
      throw UsageError("comm", fmt::format("group {}: expected a message of at most {} bytes, got {}", group_,
                                           kMostMessageBytes, mine.size()));
    }
    FrameHeader header = this->header(kind, root);
    header.sequence = exchanges_++;
    try {
      return exchange_->ask(Frame(header, mine));
    } catch (const UsageError& error) {
      throw UsageError("comm", fmt::format("group {}: {}", group_, error.what()));
    } catch (const BrokenCommError& error) {
      throw BrokenCommError(fmt::format("group {}: {}", group_, error.what()), error.hint());
    }
  }

  std::string group_;
  std::shared_ptr<TcpExchange> exchange_;
  std::uint64_t number_, exchanges_ = 0;
  std::vector<int> members_;
  bool opens_;
};

// The messages between this rank and another, in one direction, as one run of bytes.
class ByteStream {
 public:
  void add(void* begin, Size bytes) {
    if (bytes == 0) return;
    pieces_.push_back({static_cast<char*>(begin), static_cast<std::size_t>(bytes)});
    left_ += static_cast<std::size_t>(bytes);
  }
  std::size_t left() const { return left_; }
  // Appends the next bytes, at most `most`, to `text`.
  void take(std::string& text, std::size_t most) {
    advance(std::min(most, left_), [&](char* begin, std::size_t bytes) { text.append(begin, bytes); });
  }
  // Stores the next bytes. There must be room for them.
  void put(std::string_view text) {
    advance(text.size(), [&](char* begin, std::size_t bytes) {
      std::memcpy(begin, text.data(), bytes);
      text.remove_prefix(bytes);
    });
  }

 private:
  struct Bytes {
    char* begin;
    std::size_t size;
  };

  template <class Each>
  void advance(std::size_t bytes, Each&& each) {
    left_ -= bytes;
    while (bytes > 0) {
      Bytes& piece = pieces_.front();
      const std::size_t now = std::min(bytes, piece.size);
      each(piece.begin, now);
      piece.begin += now, piece.size -= now, bytes -= now;
      if (piece.size == 0) pieces_.pop_front();
    }
  }

  std::deque<Bytes> pieces_;
  std::size_t left_ = 0;
};

struct Streams {
  explicit Streams(int ranks) : outgoing(static_cast<std::size_t>(ranks)), incoming(outgoing.size()) {}

  std::vector<ByteStream> outgoing, incoming;  // by rank
};

// Runs rounds until no rank has more to send: the first byte of each text says whether its sender has.
void exchange_messages(Channel& channel, Streams& streams) {
  const auto at_once = std::max<std::size_t>(1, static_cast<std::size_t>(message_bytes) / streams.outgoing.size());
  for (bool more = true; more;) {
    const bool has_more =
        std::ranges::any_of(streams.outgoing, [&](const ByteStream& stream) { return stream.left() > at_once; });
    std::vector<std::string> texts(streams.outgoing.size(), std::string(1, has_more ? '+' : '.'));
    for (std::size_t r = 0; r < texts.size(); ++r) streams.outgoing[r].take(texts[r], at_once);
    texts = channel.all_to_all(texts);
    more = false;
    for (std::size_t r = 0; r < texts.size(); ++r) {
      const std::string_view bytes = std::string_view(texts[r]).substr(1);
      more |= texts[r].front() == '+';
      if (bytes.size() > streams.incoming[r].left()) {
        throw BrokenCommError(fmt::format("expected {} bytes from rank {}, got {}", streams.incoming[r].left(),
                                          channel.members()[r], bytes.size()));
      }
      streams.incoming[r].put(bytes);
    }
  }
  for (std::size_t r = 0; r < streams.incoming.size(); ++r) {
    if (streams.incoming[r].left() == 0) continue;
    throw BrokenCommError(
        fmt::format("expected {} more bytes from rank {}, got none", streams.incoming[r].left(), channel.members()[r]));
  }
}

// All members know how many bytes there are.
void broadcast_values(Channel& channel, std::span<char> values, int root, bool is_root) {
  while (!values.empty()) {
    const std::span<char> now = values.first(std::min(values.size(), static_cast<std::size_t>(message_bytes)));
    const std::string text = channel.broadcast(is_root ? std::string(now.data(), now.size()) : std::string(), root);
    if (text.size() != now.size()) {
      throw BrokenCommError(fmt::format("expected {} bytes from rank {}, got {}", now.size(),
                                        channel.members()[static_cast<std::size_t>(root)], text.size()));
    }
    if (!is_root) std::memcpy(now.data(), text.data(), text.size());
    values = values.subspan(now.size());
  }
}

// Runs a group's exchanges in the order of the calls.
class Sequence {
 public:
  // The function must share what it uses: the thread may outlive the group.
  template <class Exchange>
  auto run(Exchange exchange) {
    auto task = std::make_shared<std::packaged_task<decltype(exchange())()>>(std::move(exchange));
    auto result = task->get_future();
    if (!thread_) thread_.emplace();
    thread_->add([task] { (*task)(); });
    return result;
  }
  // Waits for the result. Needs no thread unless one runs earlier exchanges.
  template <class Exchange>
  auto run_now(Exchange exchange) {
    return thread_ ? run(std::move(exchange)).get() : exchange();
  }

 private:
  std::optional<device::BackgroundThread> thread_;
};

class TcpTransfer final : public MessageTransfer {
 public:
  TcpTransfer(std::shared_ptr<Channel> channel, Sequence& sequence)
      : channel_(std::move(channel)), sequence_(sequence), streams_(std::make_shared<Streams>(channel_->size())) {}

  void receive(void* values_N, Size n, DType dtype, int from) override {
    streams_->incoming[static_cast<std::size_t>(from)].add(values_N, n * dtype_bytes(dtype));
  }
  void send(const void* values_N, Size n, DType dtype, int to) override {
    streams_->outgoing[static_cast<std::size_t>(to)].add(const_cast<void*>(values_N), n * dtype_bytes(dtype));
  }
  void start() override {
    result_ = sequence_.run([channel = channel_, streams = streams_] { exchange_messages(*channel, *streams); });
  }
  void start_broadcast(std::span<char> values, int root, bool is_root) {
    result_ = sequence_.run(
        [channel = channel_, values, root, is_root] { broadcast_values(*channel, values, root, is_root); });
  }

  void abandon() noexcept override {}
  bool has_ended() noexcept override {
    return !result_.valid() || result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

 protected:
  void complete() override { result_.get(); }

 private:
  std::shared_ptr<Channel> channel_;
  Sequence& sequence_;
  std::shared_ptr<Streams> streams_;
  std::future<void> result_;
};

class TcpBackend final : public MessageBackend {
 public:
  TcpBackend(GroupPlace place, std::shared_ptr<Channel> channel)
      : MessageBackend(std::move(place)), channel_(std::move(channel)) {}

  std::unique_ptr<Transfer> broadcast(const BroadcastCall& call) override {
    auto transfer = std::make_unique<TcpTransfer>(channel_, sequence_);
    const auto bytes = static_cast<std::size_t>(call.n * dtype_bytes(call.dtype));
    transfer->start_broadcast({static_cast<char*>(call.values_N), bytes}, call.root, rank() == call.root);
    return transfer;
  }
  void barrier() override { all_gather_bytes({}); }
  std::vector<std::string> all_gather_bytes(const std::string& mine) override {
    return sequence_.run_now([channel = channel_, mine] { return channel->gather(mine); });
  }
  std::string broadcast_bytes(const std::string& value, int root) override {
    const std::string mine = rank() == root ? value : std::string();
    return sequence_.run_now([channel = channel_, mine, root] { return channel->broadcast(mine, root); });
  }

  std::shared_ptr<GroupBackend> split(const std::vector<int>& colors, std::string name) override {
    return split_into(split_place(colors, std::move(name)), colors);
  }
  // Ranks that wait for a message sleep in any case.
  std::shared_ptr<GroupBackend> duplicate_patient(std::string name) override {
    return split_into(patient_place(std::move(name)), std::vector<int>(channel_->members().size()));
  }

 protected:
  std::unique_ptr<MessageTransfer> next_transfer() override {
    return std::make_unique<TcpTransfer>(channel_, sequence_);
  }

 private:
  std::shared_ptr<GroupBackend> split_into(GroupPlace place, const std::vector<int>& colors) {
    std::vector<int> members;
    for (std::size_t r = 0; r < colors.size(); ++r) {
      if (colors[r] == colors[static_cast<std::size_t>(rank())]) members.push_back(channel_->members()[r]);
    }
    const std::uint64_t number = channel_of(channel_->number(), splits_++, members.front());
    if (place.size == 1) return make_self_backend(std::move(place));
    auto channel =
        std::make_shared<Channel>(place.name, channel_->exchange(), number, std::move(members), place.rank == 0);
    return std::make_shared<TcpBackend>(std::move(place), std::move(channel));
  }

  std::shared_ptr<Channel> channel_;
  std::uint64_t splits_ = 0;
  Sequence sequence_;
};

}  // namespace

std::shared_ptr<GroupBackend> make_tcp_world_backend(const TcpMeeting& meeting) {
  GroupPlace place{meeting.rank, meeting.size, meeting.rank, meeting.size, "world"};
  std::vector<int> members(static_cast<std::size_t>(meeting.size));
  std::iota(members.begin(), members.end(), 0);
  auto exchange = make_tcp_exchange(meeting.rank, meet_over_tcp(meeting));
  auto channel =
      std::make_shared<Channel>(place.name, std::move(exchange), kWorldChannel, std::move(members), place.rank == 0);
  return std::make_shared<TcpBackend>(std::move(place), std::move(channel));
}

Size set_tcp_message_bytes(Size bytes) { return std::exchange(message_bytes, bytes); }

}  // namespace lt::comm
