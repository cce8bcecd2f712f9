// The NCCL back end, for tensors on a CUDA device. Reductions, and gathers in windows, take two stages
// (GroupBackend::stages()): among the ranks of a host, by copies in windows (peer_copies.h), elsewhere by NCCL, and
// among hosts, by NCCL. Other gathers are NCCL's. A control back end of the same ranks carries everything else: bytes,
// barriers, tensors on the CPU.
// Each group has a stream. Events order it with the compute stream; the host waits for neither. Duplicates of a group
// share its communicator, and communicators of groups split from one parent share its buffers, so NCCL runs their
// collectives one after the other, in call order.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "comm/device_backend.h"
#include "comm/nccl_communicator.h"
#include "comm/nccl_windows.h"
#include "comm/peer_copies.h"
#include "device/cuda.h"
#include "device/fault.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "libtrain/error.h"

namespace lt {
namespace {

using Contributions = std::vector<const void*>;

Piece piece_for(int rank, const void* begin, Size bytes) { return {rank, const_cast<void*>(begin), bytes}; }

class NcclTransfer final : public Transfer {
 public:
  NcclTransfer(GroupBackend& group, const Stream& stream) : Transfer(stream), group_(group) {}
  // Call when all its work is enqueued.
  void launched() {
    end_ = TimePoint::on(stream());
    done_.record(stream());  // last, so that a graph holds nothing that nobody waits for
  }
  TimePoint end() const override { return end_; }
  void wait() override { Stream::compute(device()).wait(done_); }
  void abandon() noexcept override { group_.abandon(); }

 private:
  GroupBackend& group_;
  Event done_;
  TimePoint end_;
};

class NcclBackend final : public DeviceBackend {
 public:
  NcclBackend(std::shared_ptr<GroupBackend> control, Device device, std::vector<int> hosts,
              std::shared_ptr<NcclCommunicator> communicator)
      : DeviceBackend(std::move(control), device, std::move(hosts)),
        words_(std::static_pointer_cast<DeviceWords>(cuda::allocate_pinned(device.index, sizeof(DeviceWords)))),
        stream_(Stream::urgent(device)),
        communicator_(std::move(communicator)) {
    *words_ = {};
    if (cuda::write_word(&words_->begun, 0, stream_.cuda())) log().watch(words_);
  }

  PeerMemory peer_memory(Device where) override;
  void abandon() noexcept override {
    communicator_->abort();
    if (peer_copies_) peer_copies_->release();
  }
  std::shared_ptr<GroupBackend> split(const std::vector<int>& colors, std::string name) override;

 private:
  std::unique_ptr<Transfer> gather_on_device(const AllGatherCall& call) override;
  std::unique_ptr<Transfer> reduce_on_device(const ReduceScatterCall& call) override;
  std::unique_ptr<Transfer> all_to_all_on_device(const AllToAllCall& call) override;
  std::unique_ptr<Transfer> broadcast_on_device(const BroadcastCall& call) override;
  // Later work on the returned stream starts after the current work of the compute stream.
  CudaStream after_compute() {
    ready_.record(Stream::compute(device()));
    stream_.wait(ready_);
    return stream_.cuda();
  }
  // Makes a transfer of the work that launch(stream) enqueues on the group's stream. `ends`: the logged call ends too.
  template <class Launch>
  std::unique_ptr<Transfer> transfer(std::string_view point, Launch&& launch, bool ends = true) {
    communicator_->require_usable();
    const CudaStream stream = after_compute();
    fault_point(point, stream_);
    auto transfer = std::make_unique<NcclTransfer>(*this, stream_);
    const auto number = static_cast<std::uint32_t>(log().newest() + 1);
    cuda::write_word(&words_->begun, number, stream);
    launch(stream);
    if (ends) cuda::write_word(&words_->ended, number, stream);
    transfer->launched();
    return transfer;
  }
  void gather(const AllGatherCall& call, CudaStream stream);
  void reduce(const ReduceScatterCall& call, CudaStream stream);
  Contributions exchange_between_hosts(Size n, DType type, const Contributions& sums_for_hosts, std::byte* incoming,
                                       CudaStream stream);
  std::vector<Contributions> exchange_on_host(const ReduceScatterCall& call, const std::byte* outgoing,
                                              CudaStream stream);
  // On each host, the rank of this rank's place there.
  std::vector<int> counterparts_in(const HostGrid& grid) const {
    std::vector<int> result;
    for (int h = 0; h < grid.hosts; ++h) result.push_back(h * grid.ranks + rank() % grid.ranks);
    return result;
  }
  // Whether the ranks of this host can copy into `bytes` bytes of each other.
  bool copies_into(const void* begin, Size bytes) const { return peer_copies_ && peer_copies_->reach(begin, bytes); }
  void use_windows();

  const std::shared_ptr<DeviceWords> words_;
  Event ready_;
  Stream stream_;
  // Destroyed before the stream that it works on, unless a duplicate or windows still hold it; then its work on this
  // stream is already done.
  std::shared_ptr<NcclCommunicator> communicator_;
  // Set by the first call of peer_memory(), or by that of the group that this one duplicates.
  std::optional<Windows> windows_;
  std::optional<PeerCopies> peer_copies_;
};

cudaStream_t nccl_stream(CudaStream stream) { return static_cast<cudaStream_t>(stream.handle); }

std::unique_ptr<Transfer> NcclBackend::gather_on_device(const AllGatherCall& call) {
  if (call.n == 0) return nullptr;
  return transfer("gather", [&](CudaStream stream) { gather(call, stream); });
}

void NcclBackend::gather(const AllGatherCall& call, CudaStream stream) {
  auto* full = static_cast<std::byte*>(call.full_N);
  const Size element = dtype_bytes(call.dtype), mine = size_of(call.n, rank()) * element;
  const auto part = [&](int r) { return full + begin_of(call.n, r) * element; };
  const auto keep_own = [&] {
    if (mine > 0 && part(rank()) != call.part_P) cuda::copy(part(rank()), call.part_P, mine, stream);
  };
  const HostGrid grid = stages(device(), call.n);
  std::vector<Piece> outgoing, incoming;
  const auto exchange_with = [&](int r) {
    if (r == rank()) return;
    if (mine > 0) outgoing.push_back(piece_for(r, call.part_P, mine));
    if (const Size bytes = size_of(call.n, r) * element; bytes > 0) incoming.push_back({r, part(r), bytes});
  };
  if (grid.ranks > 1 && copies_into(full, call.n * element)) {
    const std::vector<int> counterparts = counterparts_in(grid);
    for (const int r : counterparts) exchange_with(r);
    if (!outgoing.empty()) communicator_->exchange(outgoing, incoming, stream);
    const auto copies_to = [&](int) {
      std::vector<PeerCopies::Copy> copies;
      for (const int r : counterparts) copies.push_back({r == rank() ? call.part_P : part(r), part(r), mine});
      return copies;
    };
    return peer_copies_->exchange(stream_, copies_to, keep_own);
  }
  if (call.n % size() == 0) {
    return communicator_->launch([&](ncclComm_t comm) {
      LT_NCCL(ncclAllGather(call.part_P, full, static_cast<std::size_t>(mine), ncclUint8, comm, nccl_stream(stream)));
    });
  }
  keep_own();
  for_peers(exchange_with);
  communicator_->exchange(outgoing, incoming, stream);
}

std::unique_ptr<Transfer> NcclBackend::reduce_on_device(const ReduceScatterCall& call) {
  if (call.n == 0) {
    if (call.squares == nullptr) return nullptr;
    return transfer(
        "reduce", [&](CudaStream stream) { kernels::fill_zero(stream, call.squares, sizeof(double)); },
        !call.is_first_half);
  }
  return transfer(
      "reduce", [&](CudaStream stream) { reduce(call, stream); }, !call.is_first_half);
}

void NcclBackend::reduce(const ReduceScatterCall& call, CudaStream stream) {
  const auto* outgoing = static_cast<const std::byte*>(call.full_N);
  // Own values are rounded to the wire type too, so that the result does not depend on which rank adds.
  if (call.wire != call.dtype) {
    kernels::convert(stream, call.wire, call.outgoing, call.dtype, call.full_N, call.n, false);
    outgoing = static_cast<const std::byte*>(call.outgoing);
  }
  const Size mine = size_of(call.n, rank());
  const auto add = [&](DType type, const Contributions& contributions) {
    kernels::sum_ranks(stream, call.dtype, call.part_P, type, contributions.data(),
                       static_cast<int>(contributions.size()), mine, call.accumulate, call.squares, call.partials);
  };
  const auto [hosts, ranks] = stages(device(), call.n);
  Contributions sums_for_hosts;
  if (ranks == 1) {
    for (int r = 0; r < size(); ++r) sums_for_hosts.push_back(outgoing + begin_of(call.n, r) * dtype_bytes(call.wire));
    auto* const incoming = static_cast<std::byte*>(call.incoming);
    return add(call.wire, exchange_between_hosts(call.n, call.wire, sums_for_hosts, incoming, stream));
  }
  const std::vector<Contributions> contributions_by_host = exchange_on_host(call, outgoing, stream);
  if (hosts == 1) return add(call.wire, contributions_by_host.front());
  const DType type = sum_type(call.wire);
  auto* host_sum = static_cast<std::byte*>(call.host_sums);
  for (const Contributions& contributions : contributions_by_host) {
    kernels::sum_ranks(stream, type, host_sum, call.wire, contributions.data(), ranks, mine, false);
    sums_for_hosts.push_back(std::exchange(host_sum, host_sum + mine * dtype_bytes(type)));
  }
  add(type, exchange_between_hosts(call.n, type, sums_for_hosts, host_sum, stream));
}

// Each rank sends what its host has, sums_for_hosts[h], to its counterpart on host h, the rank of the same place there.
// Returns what all hosts have for this rank's part; what arrives lies in `incoming`.
Contributions NcclBackend::exchange_between_hosts(Size n, DType type, const Contributions& sums_for_hosts,
                                                  std::byte* incoming, CudaStream stream) {
  const std::vector<int> counterparts = counterparts_in(stages(device(), n));
  const Size element = dtype_bytes(type), mine = size_of(n, rank()) * element;
  Contributions contributions;
  std::vector<Piece> sent, received;
  for (std::size_t h = 0; h < sums_for_hosts.size(); ++h) {
    const int r = counterparts[h];
    contributions.push_back(sums_for_hosts[h]);
    if (r == rank()) continue;
    if (const Size bytes = size_of(n, r) * element; bytes > 0) sent.push_back(piece_for(r, sums_for_hosts[h], bytes));
    if (mine > 0) received.push_back({r, incoming, mine});
    contributions.back() = std::exchange(incoming, incoming + mine);
  }
  communicator_->exchange(sent, received, stream);
  return contributions;
}

// The ranks of a host send each other, for each host, what they have for the part of the receiver's counterpart there.
// Returns, for each host, what all ranks of this host have for the part of this rank's counterpart.
std::vector<Contributions> NcclBackend::exchange_on_host(const ReduceScatterCall& call, const std::byte* outgoing,
                                                         CudaStream stream) {
  const auto [hosts, ranks] = stages(device(), call.n);
  const int local = rank() % ranks, first = rank() - local;
  const Size mine = call.n / size() * dtype_bytes(call.wire);
  auto* const incoming = static_cast<std::byte*>(call.incoming);
  const auto part = [&, ranks = ranks](int host, int local_rank) {
    return outgoing + (host * ranks + local_rank) * mine;
  };
  // A rank's staging memory has a slot for each host's part from every other rank of this host.
  const auto slot = [&, hosts = hosts](int host, int sender, int receiver) {
    return incoming + ((sender < receiver ? sender : sender - 1) * hosts + host) * mine;
  };
  std::vector<Contributions> contributions(static_cast<std::size_t>(hosts));
  for (int h = 0; h < hosts; ++h) {
    for (int sender = 0; sender < ranks; ++sender) {
      const void* const contribution = sender == local ? part(h, local) : slot(h, sender, local);
      contributions[static_cast<std::size_t>(h)].push_back(contribution);
    }
  }
  if (copies_into(incoming, (ranks - 1) * hosts * mine)) {
    peer_copies_->exchange(stream_, [&, hosts = hosts](int peer) {
      std::vector<PeerCopies::Copy> copies;
      for (int h = 0; h < hosts; ++h) copies.push_back({part(h, peer), slot(h, local, peer), mine});
      return copies;
    });
    return contributions;
  }
  std::vector<Piece> sent, received;
  for (int peer = 0; peer < ranks; ++peer) {
    for (int h = 0; h < hosts && peer != local; ++h) {
      sent.push_back(piece_for(first + peer, part(h, peer), mine));
      received.push_back({first + peer, slot(h, peer, local), mine});
    }
  }
  communicator_->exchange(sent, received, stream);
  return contributions;
}

std::unique_ptr<Transfer> NcclBackend::all_to_all_on_device(const AllToAllCall& call) {
  return transfer("all_to_all",
                  [&](CudaStream stream) { communicator_->exchange(call.outgoing, call.incoming, stream); });
}

std::unique_ptr<Transfer> NcclBackend::broadcast_on_device(const BroadcastCall& call) {
  if (call.n == 0) return nullptr;
  const auto bytes = static_cast<std::size_t>(call.n * dtype_bytes(call.dtype));
  return transfer("broadcast", [&](CudaStream stream) {
    communicator_->launch([&](ncclComm_t comm) {
      LT_NCCL(ncclBroadcast(call.values_N, call.values_N, bytes, ncclUint8, call.root, comm, nccl_stream(stream)));
    });
  });
}

PeerMemory NcclBackend::peer_memory(Device where) {
  if (where != device()) return {};
  if (!windows_) {
    windows_ = make_windows(shared_control(), communicator_, grid(), where);
    use_windows();
  }
  return {windows_->memory, windows_->why_none};
}

void NcclBackend::use_windows() {
  if (!windows_ || windows_->memory == nullptr) return;
  peer_copies_.emplace(windows_->memory, rank() % grid().ranks, grid().ranks);
}

std::shared_ptr<GroupBackend> NcclBackend::split(const std::vector<int>& colors, std::string name) {
  std::shared_ptr<GroupBackend> control = this->control().split(colors, name);
  const auto ranks_of = [&](int color) { return std::count(colors.begin(), colors.end(), color); };
  // A single rank takes tensors on any device.
  if (std::all_of(colors.begin(), colors.end(), [&](int color) { return ranks_of(color) == 1; })) return control;
  if (control->size() == size()) {  // a duplicate shares the communicator, whose collectives take turns anyway
    auto group = std::make_shared<NcclBackend>(std::move(control), device(), split_hosts(colors), communicator_);
    group->windows_ = windows_, group->use_windows();
    return group;
  }
  // NCCL allows no negative colors, so a group's color is its lowest rank.
  const auto first = std::find(colors.begin(), colors.end(), colors[static_cast<std::size_t>(rank())]);
  const int color = control->size() == 1 ? NcclCommunicator::kNoColor : static_cast<int>(first - colors.begin());
  auto communicator = std::make_shared<NcclCommunicator>(communicator_, color, rank(), name);
  if (control->size() == 1) return control;
  return std::make_shared<NcclBackend>(std::move(control), device(), split_hosts(colors), std::move(communicator));
}

}  // namespace

namespace {

// Names the host as NCCL does, which tells hosts of one name apart by the start of their kernels.
std::string host_name() {
  if (const char* const name = std::getenv("NCCL_HOSTID"); name != nullptr) return name;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return std::string(host) + " " + boot;
}

// Numbers the hosts of the group's ranks.
std::vector<int> hosts_of(const Group& group) {
  const auto names = group.all_gather_bytes(host_name());
  std::vector<int> hosts;
  for (const std::string& name : names) {
    hosts.push_back(static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin()));
  }
  return hosts;
}

// NCCL requires it, and reports a violation only as an invalid argument.
void require_own_devices(const Group& group, Device device) {
  const auto places = group.all_gather_bytes(host_name() + " " + cuda::bus_id(device.index));
  for (std::size_t r = 1; r < places.size(); ++r) {
    const auto first = std::find(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(r), places[r]);
    if (first == places.begin() + static_cast<std::ptrdiff_t>(r)) continue;
    throw UsageError("comm",
                     "ranks " + std::to_string(first - places.begin()) + " and " + std::to_string(r) +
                         ": expected a CUDA device for each, both have " + places[r],
                     "as many ranks on a host as it has devices");
  }
}

}  // namespace

Group Group::with_nccl(Device device) const {
  collectively(*this, [&] {
    if (device.type != DeviceType::cuda || backend_->is_paper()) {
      throw UsageError("comm", "with_nccl: expected ranks that run, each with a CUDA device, got group " +
                                   backend_->place().name + " and device " + to_string(device));
    }
    require_device(device);
  });
  if (size() == 1) return *this;
  require_own_devices(*this, device);
  std::vector<int> one_color(static_cast<std::size_t>(size()));
  std::shared_ptr<GroupBackend> control = backend_->split(one_color, backend_->place().name);
  auto communicator = std::make_shared<NcclCommunicator>(*control, device.index);
  return Group(std::make_shared<NcclBackend>(std::move(control), device, hosts_of(*this), std::move(communicator)));
}

}  // namespace lt
