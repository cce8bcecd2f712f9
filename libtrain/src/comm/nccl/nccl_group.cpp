// The NCCL back end, for tensors on a CUDA device. Reductions, and gathers in windows, have two stages
// (GroupBackend::stages()). The first stage is among the ranks of a host: by copies if the memory is in windows
// (peer_copies.h), otherwise by NCCL. The second stage is among hosts, by NCCL. NCCL runs all other gathers in one
// call. A control back end of the same ranks carries everything else: bytes, barriers, tensors on the CPU. Each group
// has a stream, and with two stages a second one for traffic between hosts, so that the stages of consecutive
// collectives overlap. Events order them with the compute stream; the host never waits for them. Duplicates of a group
// share its communicator, and communicators of groups split from one parent share its buffers, so NCCL runs their
// collectives one after the other, in call order.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "comm/device_backend.h"
#include "comm/nccl/nccl_communicator.h"
#include "comm/nccl/nccl_hosts.h"
#include "comm/nccl/nccl_windows.h"
#include "comm/nccl/peer_copies.h"
#include "device/cuda.h"
#include "device/fault.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

using Contributions = std::vector<const void*>;

Piece piece_for(int rank, const void* begin, Size bytes) { return {rank, const_cast<void*>(begin), bytes}; }

class NcclTransfer final : public Transfer {
 public:
  NcclTransfer(GroupBackend& group, const Stream& first) : Transfer(first), group_(group) {}
  // Call when all its work is enqueued, of which the last is on the stream `last`.
  void launched(const Stream& last) {
    end_ = TimePoint::on(last);
    done_.record(last);  // last, so that a graph holds nothing that nobody waits for
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
        words_(std::static_pointer_cast<DeviceWords>(device::cuda::allocate_pinned(device.index, sizeof(DeviceWords)))),
        on_host_(Stream::urgent(device)),
        communicator_(std::move(communicator)) {
    if (!grid().is_one_stage()) between_hosts_ = Stream::urgent(device);
    *words_ = {};
    if (device::cuda::write_word(&words_->begun, 0, on_host_.cuda())) log().watch(words_);
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
  // The stream of what goes between hosts, and of all that takes one stage.
  const Stream& between() const { return between_hosts_ ? *between_hosts_ : on_host_; }
  // Makes a transfer of the work that launch() enqueues, first on one stream and last on the other, after the current
  // work of the compute stream. Gathers in stages go from between() to on_host_, all else from on_host_ to between():
  // so calls begin and end in their order. `ends`: the logged call ends too.
  template <class Launch>
  std::unique_ptr<Transfer> transfer(std::string_view point, const Stream& first, const Stream& last, Launch&& launch,
                                     bool ends = true) {
    communicator_->require_usable();
    enqueue_after(Stream::compute(device()), first);
    device::fault_point(point, first);
    auto transfer = std::make_unique<NcclTransfer>(*this, first);
    const auto number = static_cast<std::uint32_t>(log().newest() + 1);
    device::cuda::write_word(&words_->begun, number, first.cuda());
    launch();
    if (ends) device::cuda::write_word(&words_->ended, number, last.cuda());
    transfer->launched(last);
    return transfer;
  }
  // The same of the work that launch(stream) enqueues, in one stage.
  template <class Launch>
  std::unique_ptr<Transfer> transfer_at_once(std::string_view point, Launch&& launch, bool ends = true) {
    const auto on_between = [&] {
      enqueue_after(on_host_, between());
      launch(between().cuda());
    };
    return transfer(point, on_host_, between(), on_between, ends);
  }
  // Later work of `next` starts after the current work of `before`.
  void enqueue_after(const Stream& before, const Stream& next) {
    if (&before == &next) return;
    reached_.record(before);
    next.wait(reached_);
  }
  void gather_in_stages(const AllGatherCall& call, const HostGrid& grid);
  void gather_at_once(const AllGatherCall& call, CudaStream stream);
  // Elements of each part that are exchanged at a time. The last slice of a smaller part is smaller.
  struct Slice {
    Size begin, count;
  };
  Size count_in(const Slice& slice, Size n, int r) const {
    return std::clamp<Size>(size_of(n, r) - slice.begin, 0, slice.count);
  }
  void reduce(const ReduceScatterCall& call);
  void reduce_slice(const ReduceScatterCall& call, const std::byte* outgoing, const Slice& slice);
  Contributions exchange_between_hosts(const HostGrid& grid, Size n, const Slice& slice, DType type,
                                       const Contributions& sums_for_hosts, std::byte* incoming);
  std::vector<Contributions> exchange_on_host(const HostGrid& grid, const ReduceScatterCall& call,
                                              const std::byte* outgoing, const Slice& slice);
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
  Event reached_;
  Stream on_host_;
  std::optional<Stream> between_hosts_;  // only if there are two stages
  // Destroyed before the streams that it works on, unless a duplicate or windows still hold it; then its work on these
  // streams is already done.
  std::shared_ptr<NcclCommunicator> communicator_;
  // Set by the first call of peer_memory(), or by that of the group that this one duplicates.
  std::optional<Windows> windows_;
  std::optional<PeerCopies> peer_copies_;
};

cudaStream_t nccl_stream(CudaStream stream) { return static_cast<cudaStream_t>(stream.handle); }

std::unique_ptr<Transfer> NcclBackend::gather_on_device(const AllGatherCall& call) {
  if (call.n == 0) return nullptr;
  const HostGrid grid = stages(device(), call.n);
  if (grid.ranks == 1 || !copies_into(call.full_N, call.n * dtype_bytes(call.dtype))) {
    return transfer_at_once("gather", [&](CudaStream stream) { gather_at_once(call, stream); });
  }
  return transfer("gather", between(), on_host_, [&] { gather_in_stages(call, grid); });
}

// Counterparts exchange their parts, and each rank copies those of all its counterparts to the others of its host.
void NcclBackend::gather_in_stages(const AllGatherCall& call, const HostGrid& grid) {
  const Size bytes = call.n / size() * dtype_bytes(call.dtype);
  const auto part = [&](int r) { return static_cast<std::byte*>(call.full_N) + r * bytes; };
  const std::vector<int> counterparts = counterparts_in(grid);
  std::vector<Piece> outgoing, incoming;
  for (const int r : counterparts) {
    if (r != rank()) outgoing.push_back(piece_for(r, call.part_P, bytes)), incoming.push_back({r, part(r), bytes});
  }
  if (!outgoing.empty()) communicator_->exchange(outgoing, incoming, between().cuda());
  enqueue_after(between(), on_host_);
  const auto copies_to = [&](int) {
    std::vector<PeerCopies::Copy> copies;
    for (const int r : counterparts) copies.push_back({r == rank() ? call.part_P : part(r), part(r), bytes});
    return copies;
  };
  peer_copies_->exchange(on_host_, copies_to, [&] {
    if (part(rank()) != call.part_P) device::cuda::copy(part(rank()), call.part_P, bytes, on_host_.cuda());
  });
}

// By NCCL, which gathers equal parts itself.
void NcclBackend::gather_at_once(const AllGatherCall& call, CudaStream stream) {
  auto* const full = static_cast<std::byte*>(call.full_N);
  const Size element = dtype_bytes(call.dtype), mine = size_of(call.n, rank()) * element;
  const auto part = [&](int r) { return full + begin_of(call.n, r) * element; };
  if (call.n % size() == 0) {
    return communicator_->launch([&](ncclComm_t comm) {
      LT_NCCL(ncclAllGather(call.part_P, full, static_cast<std::size_t>(mine), ncclUint8, comm, nccl_stream(stream)));
    });
  }
  if (mine > 0 && part(rank()) != call.part_P) device::cuda::copy(part(rank()), call.part_P, mine, stream);
  std::vector<Piece> outgoing, incoming;
  for_peers([&](int r) {
    if (mine > 0) outgoing.push_back(piece_for(r, call.part_P, mine));
    if (const Size bytes = size_of(call.n, r) * element; bytes > 0) incoming.push_back({r, part(r), bytes});
  });
  communicator_->exchange(outgoing, incoming, stream);
}

std::unique_ptr<Transfer> NcclBackend::reduce_on_device(const ReduceScatterCall& call) {
  const bool ends = !call.is_first_half;
  if (call.n > 0) {
    return transfer(
        "reduce", on_host_, between(), [&] { reduce(call); }, ends);
  }
  if (call.squares == nullptr) return nullptr;
  const auto clear = [&](CudaStream stream) { kernels::fill_zero(stream, call.squares, sizeof(double)); };
  return transfer_at_once("reduce", clear, ends);
}

void NcclBackend::reduce(const ReduceScatterCall& call) {
  const auto* outgoing = static_cast<const std::byte*>(call.full_N);
  // Own values are rounded to the wire type too, so that the result does not depend on which rank adds.
  if (call.wire != call.dtype) {
    kernels::convert(on_host_.cuda(), call.wire, call.outgoing, call.dtype, call.full_N, call.n, false);
    outgoing = static_cast<const std::byte*>(call.outgoing);
  }
  const Size all = size_of(call.n, 0), at_once = elements_at_once(call);
  for (Size begin = 0; begin < all; begin += at_once) {
    reduce_slice(call, outgoing, {begin, std::min(at_once, all - begin)});
  }
}

void NcclBackend::reduce_slice(const ReduceScatterCall& call, const std::byte* outgoing, const Slice& slice) {
  const Size mine = count_in(slice, call.n, rank());
  const bool has_pieces = call.piece > 0;  // their sums are not those of slices
  std::vector<const void*> addends;
  for (const void* const addend : call.addends) {
    addends.push_back(static_cast<const std::byte*>(addend) + slice.begin * dtype_bytes(call.dtype));
  }
  const auto add = [&](DType type, const Contributions& contributions) {
    const bool is_last = slice.begin + slice.count == size_of(call.n, 0);
    device::fault_point("add", between());
    kernels::sum_ranks(between().cuda(), call.dtype,
                       static_cast<std::byte*>(call.part_P) + slice.begin * dtype_bytes(call.dtype), type,
                       contributions.data(), static_cast<int>(contributions.size()), mine, addends,
                       is_last && !has_pieces ? call.squares : nullptr, has_pieces ? nullptr : call.partials,
                       slice.begin / kernels::kSumBlock);
    if (!is_last || !has_pieces || call.squares == nullptr) return;
    kernels::sum_squares(between().cuda(), call.dtype, call.squares, call.part_P, size_of(call.n, rank()),
                         call.partials, call.piece);
  };
  const HostGrid grid = stages(device(), call.n);
  Contributions sums_for_hosts;
  if (grid.ranks == 1) {
    for (int r = 0; r < size(); ++r) {
      sums_for_hosts.push_back(outgoing + (begin_of(call.n, r) + slice.begin) * dtype_bytes(call.wire));
    }
    auto* const incoming = static_cast<std::byte*>(call.incoming);
    enqueue_after(on_host_, between());
    return add(call.wire, exchange_between_hosts(grid, call.n, slice, call.wire, sums_for_hosts, incoming));
  }
  const std::vector<Contributions> contributions_by_host = exchange_on_host(grid, call, outgoing, slice);
  if (grid.hosts == 1) return add(call.wire, contributions_by_host.front());
  const DType type = sum_type(call.wire);
  if (slice.begin > 0) enqueue_after(between(), on_host_);  // the slice before has left the sums of hosts
  auto* host_sum = static_cast<std::byte*>(call.host_sums);
  for (const Contributions& contributions : contributions_by_host) {
    kernels::sum_ranks(on_host_.cuda(), type, host_sum, call.wire, contributions.data(), grid.ranks, mine, {});
    sums_for_hosts.push_back(std::exchange(host_sum, host_sum + mine * dtype_bytes(type)));
  }
  enqueue_after(on_host_, between());
  add(type, exchange_between_hosts(grid, call.n, slice, type, sums_for_hosts, host_sum));
}

// Each rank sends what its host has, sums_for_hosts[h], to its counterpart on host h, the rank of the same place there.
// Returns what all hosts have for this rank's part; what arrives lies in `incoming`.
Contributions NcclBackend::exchange_between_hosts(const HostGrid& grid, Size n, const Slice& slice, DType type,
                                                  const Contributions& sums_for_hosts, std::byte* incoming) {
  const std::vector<int> counterparts = counterparts_in(grid);
  const auto bytes_of = [&](int r) { return count_in(slice, n, r) * dtype_bytes(type); };
  const Size mine = bytes_of(rank());
  Contributions contributions;
  std::vector<Piece> sent, received;
  for (std::size_t h = 0; h < sums_for_hosts.size(); ++h) {
    const int r = counterparts[h];
    contributions.push_back(sums_for_hosts[h]);
    if (r == rank()) continue;
    if (const Size bytes = bytes_of(r); bytes > 0) sent.push_back(piece_for(r, sums_for_hosts[h], bytes));
    if (mine > 0) received.push_back({r, incoming, mine});
    contributions.back() = std::exchange(incoming, incoming + mine);
  }
  communicator_->exchange(sent, received, between().cuda());
  return contributions;
}

// The ranks of a host send each other, for each host, what they have for the part of the receiver's counterpart there.
// Returns, for each host, what all ranks of this host have for the part of this rank's counterpart.
std::vector<Contributions> NcclBackend::exchange_on_host(const HostGrid& grid, const ReduceScatterCall& call,
                                                         const std::byte* outgoing, const Slice& slice) {
  const int hosts = grid.hosts, ranks = grid.ranks;
  const int local = rank() % ranks, first = rank() - local;
  const Size element = dtype_bytes(call.wire), mine = slice.count * element;
  auto* const incoming = static_cast<std::byte*>(call.incoming);
  const auto part = [&](int host, int local_rank) {
    return outgoing + (begin_of(call.n, host * ranks + local_rank) + slice.begin) * element;
  };
  // A rank's staging memory has a slot for each host's part from every other rank of this host.
  const auto slot = [&](int host, int sender, int receiver) {
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
    peer_copies_->exchange(on_host_, [&](int peer) {
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
  communicator_->exchange(sent, received, on_host_.cuda());
  return contributions;
}

std::unique_ptr<Transfer> NcclBackend::all_to_all_on_device(const AllToAllCall& call) {
  return transfer_at_once("all_to_all",
                          [&](CudaStream stream) { communicator_->exchange(call.outgoing, call.incoming, stream); });
}

std::unique_ptr<Transfer> NcclBackend::broadcast_on_device(const BroadcastCall& call) {
  if (call.n == 0) return nullptr;
  const auto bytes = static_cast<std::size_t>(call.n * dtype_bytes(call.dtype));
  return transfer_at_once("broadcast", [&](CudaStream stream) {
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

}  // namespace lt::comm

namespace lt {

Group Group::with_nccl(Device device) const {
  collectively(*this, [&] {
    if (device.type != DeviceType::cuda || backend_->is_paper()) {
      throw UsageError("comm", "with_nccl: expected ranks that run, each with a CUDA device, got group " +
                                   backend_->place().name + " and device " + to_string(device));
    }
    require_device(device);
  });
  if (size() == 1) return *this;
  comm::require_own_devices(*this, device);
  std::vector<int> one_color(static_cast<std::size_t>(size()));
  std::shared_ptr<comm::GroupBackend> control = backend_->split(one_color, backend_->place().name);
  auto communicator = std::make_shared<comm::NcclCommunicator>(*control, device.index);
  return Group(
      std::make_shared<comm::NcclBackend>(std::move(control), device, comm::hosts_of(*this), std::move(communicator)));
}

}  // namespace lt
