// A star: each rank has a link to rank 0 of its group, which gathers and hands on.
#include "comm/tcp_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "comm/tcp_socket.h"
#include "libtrain/error.h"

namespace lt {
namespace {

constexpr std::chrono::seconds kSplitPatience{120};
constexpr std::chrono::seconds kGreetingPatience{2};
constexpr std::size_t kLongestGreeting = 4096;

// By rank. Rank 0 has one to each other rank, the others have one to rank 0.
using Links = std::vector<TcpLink>;

TcpDeadline in(std::chrono::seconds time) { return std::chrono::steady_clock::now() + time; }

// What a rank says when it has connected. Whoever says anything else is not of this group.
std::string greeting(const GroupPlace& place, int rank) {
  return fmt::format("libtrain ranks 1, group {} of {}, rank {}", place.name, place.size, rank);
}

Links accept_all(const TcpListener& listener, const GroupPlace& place, TcpDeadline deadline) {
  Links links(static_cast<std::size_t>(place.size));
  std::vector<std::string> awaited;
  for (int r = 1; r < place.size; ++r) awaited.push_back(greeting(place, r));
  for (int left = place.size - 1; left > 0;) {
    const auto missing =
        std::find_if(awaited.begin(), awaited.end(), [](const std::string& text) { return !text.empty(); });
    const auto first = static_cast<int>(missing - awaited.begin()) + 1;
    TcpLink link = listener.accept(fmt::format("group {}: rank {} of {}", place.name, first, place.size), deadline);
    std::string said;
    try {
      said = link.receive(kLongestGreeting, std::min(deadline, in(kGreetingPatience)));
    } catch (const CommError&) {
      continue;  // a stranger: ports are scanned
    }
    const auto who = std::find(awaited.begin(), awaited.end(), said);
    if (who == awaited.end() || who->empty()) continue;
    const auto r = static_cast<std::size_t>(who - awaited.begin()) + 1;
    link.set_peer(fmt::format("group {}: rank {}", place.name, r));
    links[r] = std::move(link);
    who->clear();
    --left;
  }
  return links;
}

Links connect_to_hub(const std::string& host, int port, const GroupPlace& place, TcpDeadline deadline) {
  Links links(static_cast<std::size_t>(place.size));
  links[0] = TcpLink::connect(host, port, fmt::format("group {}: rank 0", place.name), deadline);
  links[0].send(greeting(place, place.rank));
  return links;
}

std::string pack(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    const std::uint64_t length = text.size();
    bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
    bytes += text;
  }
  return bytes;
}

std::vector<std::string> unpack(const std::string& bytes, int count) {
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (int i = 0; i < count; ++i) {
    std::uint64_t length = 0;
    if (bytes.size() - at < sizeof length) break;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    at += sizeof length;
    if (bytes.size() - at < length) break;
    texts.push_back(bytes.substr(at, length));
    at += length;
  }
  if (static_cast<int>(texts.size()) != count || at != bytes.size()) {
    throw CommError(fmt::format("expected the texts of {} ranks, got {} bytes that are not", count, bytes.size()));
  }
  return texts;
}

class TcpBackend final : public GroupBackend {
 public:
  TcpBackend(GroupPlace place, Links links) : GroupBackend(std::move(place)), links_(std::move(links)) {}

  bool takes(Device) const override { return false; }
  std::unique_ptr<Transfer> all_gather(const AllGatherCall&) override { refuse(); }
  std::unique_ptr<Transfer> reduce_scatter(const ReduceScatterCall&) override { refuse(); }
  std::unique_ptr<Transfer> broadcast(const BroadcastCall&) override { refuse(); }
  void barrier() override { all_gather_bytes({}); }
  std::vector<std::string> all_gather_bytes(const std::string& mine) override;
  std::string broadcast_bytes(const std::string& value, int root) override;
  std::shared_ptr<GroupBackend> split(const std::vector<int>& colors, std::string name) override;
  std::shared_ptr<GroupBackend> duplicate_patient(std::string name) override {
    return split(std::vector<int>(static_cast<std::size_t>(size())), std::move(name));
  }

 private:
  [[noreturn]] static void refuse() { throw InternalError("comm", "ranks that met over TCP exchange no tensors"); }
  TcpLink& link(int r) { return links_[static_cast<std::size_t>(r)]; }

  Links links_;
};

std::vector<std::string> TcpBackend::all_gather_bytes(const std::string& mine) {
  if (rank() > 0) {
    link(0).send(mine);
    return unpack(link(0).receive(), size());
  }
  std::vector<std::string> all{mine};
  for (int r = 1; r < size(); ++r) all.push_back(link(r).receive());
  const std::string packed = pack(all);
  for (int r = 1; r < size(); ++r) link(r).send(packed);
  return all;
}

std::string TcpBackend::broadcast_bytes(const std::string& value, int root) {
  if (rank() == 0) {
    const std::string all = root == 0 ? value : link(root).receive();
    for (int r = 1; r < size(); ++r) {
      if (r != root) link(r).send(all);
    }
    return all;
  }
  if (rank() == root) {
    link(0).send(value);
    return value;
  }
  return link(0).receive();
}

std::shared_ptr<GroupBackend> TcpBackend::split(const std::vector<int>& colors, std::string name) {
  const GroupPlace place = split_place(colors, std::move(name));
  // Rank 0 of each group says where it listens.
  const bool is_hub = place.rank == 0 && place.size > 1;
  std::unique_ptr<TcpListener> listener;
  std::string mine;
  if (is_hub) {
    listener = std::make_unique<TcpListener>(0);
    mine = fmt::format("{} {}", link(rank() == 0 ? 1 : 0).local_address(), listener->port());
  }
  const std::vector<std::string> addresses = all_gather_bytes(mine);
  if (place.size == 1) return make_self_backend(place);
  const TcpDeadline deadline = in(kSplitPatience);
  if (is_hub) return std::make_shared<TcpBackend>(place, accept_all(*listener, place, deadline));
  const auto hub = std::find(colors.begin(), colors.end(), colors[static_cast<std::size_t>(rank())]) - colors.begin();
  const std::string& address = addresses[static_cast<std::size_t>(hub)];
  const std::size_t space = address.find(' ');
  return std::make_shared<TcpBackend>(
      place, connect_to_hub(address.substr(0, space), std::stoi(address.substr(space + 1)), place, deadline));
}

}  // namespace

std::shared_ptr<GroupBackend> make_tcp_world_backend(const std::string& host, int port, int rank, int size,
                                                     std::chrono::seconds patience) {
  GroupPlace place{rank, size, rank, size, "world"};
  const TcpDeadline deadline = in(patience);
  Links links =
      rank == 0 ? accept_all(TcpListener(port), place, deadline) : connect_to_hub(host, port, place, deadline);
  return std::make_shared<TcpBackend>(std::move(place), std::move(links));
}

}  // namespace lt
