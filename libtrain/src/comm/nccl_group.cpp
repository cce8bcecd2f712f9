// The NCCL back end, for tensors on a CUDA device. Large gathers and reductions within a host are copies between peers
// (peer_copies.h), everything else is NCCL's. A control back end of the same ranks carries everything else: bytes,
// barriers, tensors on the CPU. Each group has a communicator and a stream. Events order that stream with the compute
// stream; the host waits for neither. Communicators of groups split from one parent share its buffers, so NCCL runs
// their collectives one after the other, in call order.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "comm/device_backend.h"
#include "comm/least_copied_bytes.h"
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

// Below it the kernels of NCCL are faster than copy engines, and wait for the peer only briefly.
Size least_copied_bytes = Size{1} << 20;

// For the types that NCCL adds; all others travel as bytes.
ncclDataType_t nccl_sum_type(DType dtype) { return dtype == DType::f64 ? ncclFloat64 : ncclFloat32; }

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
  struct Bytes {
    const void* begin;
    Size count;
  };
  // Sends outgoing(r) to each other rank r, and receives incoming(r) from it; either may be empty.
  template <class Outgoing, class Incoming>
  void exchange(CudaStream stream, Outgoing&& outgoing, Incoming&& incoming);
  void gather(const AllGatherCall& call, CudaStream stream);
  void add_on_the_way(const ReduceScatterCall& call, CudaStream stream);
  void add_in_tree_order(const ReduceScatterCall& call, CudaStream stream);
  // Whether copy engines move `n` elements, the same number to each rank, into `bytes` bytes of all ranks.
  bool copies_into(const void* begin, Size bytes, Size n) const {
    return peer_copies_ && n % size() == 0 && bytes >= least_copied_bytes && peer_copies_->reach(begin, bytes);
  }
  void use_windows();

  const std::shared_ptr<DeviceWords> words_;
  Event ready_;
  Stream stream_;
  // Destroyed before the stream that it works on, unless windows still hold it; then its work is already done.
  std::shared_ptr<NcclCommunicator> communicator_;
  // Set by the first call of peer_memory(), or by that of the group that this one duplicates.
  std::optional<Windows> windows_;
  std::optional<PeerCopies> peer_copies_;
};

cudaStream_t nccl_stream(CudaStream stream) { return static_cast<cudaStream_t>(stream.handle); }

template <class Outgoing, class Incoming>
void NcclBackend::exchange(CudaStream stream, Outgoing&& outgoing, Incoming&& incoming) {
  communicator_->launch([&](ncclComm_t comm) {
    for_peers([&](int r) {
      const Bytes out = outgoing(r), in = incoming(r);
      const auto sent = static_cast<std::size_t>(out.count), received = static_cast<std::size_t>(in.count);
      if (sent > 0) LT_NCCL(ncclSend(out.begin, sent, ncclUint8, r, comm, nccl_stream(stream)));
      if (received > 0) {
        LT_NCCL(ncclRecv(const_cast<void*>(in.begin), received, ncclUint8, r, comm, nccl_stream(stream)));
      }
    });
  });
}

std::unique_ptr<Transfer> NcclBackend::gather_on_device(const AllGatherCall& call) {
  if (call.n == 0) return nullptr;
  return transfer("gather", [&](CudaStream stream) { gather(call, stream); });
}

void NcclBackend::gather(const AllGatherCall& call, CudaStream stream) {
  auto* full = static_cast<std::byte*>(call.full_N);
  const Size element = dtype_bytes(call.dtype), mine = size_of(call.n, rank()) * element;
  std::byte* own = full + begin_of(call.n, rank()) * element;
  const auto keep_own = [&] {
    if (mine > 0 && own != call.part_P) cuda::copy(own, call.part_P, mine, stream);
  };
  if (copies_into(full, call.n * element, call.n)) {
    const auto own_part = [&](int) { return PeerCopies::Piece{call.part_P, own}; };
    return peer_copies_->exchange(stream_, mine, own_part, keep_own);
  }
  if (call.n % size() == 0) {
    return communicator_->launch([&](ncclComm_t comm) {
      LT_NCCL(ncclAllGather(call.part_P, full, static_cast<std::size_t>(mine), ncclUint8, comm, nccl_stream(stream)));
    });
  }
  keep_own();
  exchange(
      stream,
      [&](int) {
        return Bytes{call.part_P, mine};
      },
      [&](int r) {
        return Bytes{full + begin_of(call.n, r) * element, size_of(call.n, r) * element};
      });
}

std::unique_ptr<Transfer> NcclBackend::reduce_on_device(const ReduceScatterCall& call) {
  if (call.n == 0) {
    if (call.squares == nullptr) return nullptr;
    return transfer(
        "reduce", [&](CudaStream stream) { kernels::fill_zero(stream, call.squares, sizeof(double)); },
        !call.is_first_half);
  }
  const auto reduce = [&](CudaStream stream) {
    nccl_adds(call) ? add_on_the_way(call, stream) : add_in_tree_order(call, stream);
  };
  return transfer("reduce", reduce, !call.is_first_half);
}

void NcclBackend::add_on_the_way(const ReduceScatterCall& call, CudaStream stream) {
  const Size mine = call.n / size();
  void* sum = call.accumulate ? call.incoming : call.part_P;
  communicator_->launch([&](ncclComm_t comm) {
    LT_NCCL(ncclReduceScatter(call.full_N, sum, static_cast<std::size_t>(mine), nccl_sum_type(call.dtype), ncclSum,
                              comm, nccl_stream(stream)));
  });
  if (call.accumulate) kernels::convert(stream, call.dtype, call.part_P, call.dtype, sum, mine, true);
  if (call.squares == nullptr) return;
  kernels::sum_squares(stream, call.dtype, call.squares, call.part_P, mine, call.partials);
}

void NcclBackend::add_in_tree_order(const ReduceScatterCall& call, CudaStream stream) {
  const Size element = dtype_bytes(call.wire), mine = size_of(call.n, rank());
  const auto* outgoing = static_cast<const std::byte*>(call.full_N);
  // Own values are rounded to the wire type too, so that the result does not depend on which rank adds.
  if (call.wire != call.dtype) {
    kernels::convert(stream, call.wire, call.outgoing, call.dtype, call.full_N, call.n, false);
    outgoing = static_cast<const std::byte*>(call.outgoing);
  }
  // Each rank's staging memory has a place for the part of every other rank.
  auto* const incoming = static_cast<std::byte*>(call.incoming);
  const auto place = [&](int of, int on) { return incoming + (of < on ? of : of - 1) * mine * element; };
  std::vector<const void*> contributions(static_cast<std::size_t>(size()));
  contributions[static_cast<std::size_t>(rank())] = outgoing + begin_of(call.n, rank()) * element;
  for_peers([&](int r) { contributions[static_cast<std::size_t>(r)] = place(r, rank()); });
  const auto bytes_for = [&](int r) {
    return Bytes{outgoing + begin_of(call.n, r) * element, size_of(call.n, r) * element};
  };
  if (copies_into(incoming, (size() - 1) * mine * element, call.n)) {
    peer_copies_->exchange(stream_, mine * element, [&](int r) {
      return PeerCopies::Piece{bytes_for(r).begin, place(rank(), r)};
    });
  } else {
    exchange(stream, bytes_for, [&](int r) {
      return Bytes{contributions[static_cast<std::size_t>(r)], mine * element};
    });
  }
  kernels::sum_ranks(stream, call.dtype, call.part_P, call.wire, contributions.data(), size(), mine, call.accumulate,
                     call.squares, call.partials);
}

std::unique_ptr<Transfer> NcclBackend::all_to_all_on_device(const AllToAllCall& call) {
  return transfer("all_to_all", [&](CudaStream stream) {
    communicator_->launch([&](ncclComm_t comm) {
      for (const Piece& piece : call.outgoing) {
        const auto bytes = static_cast<std::size_t>(piece.bytes);
        LT_NCCL(ncclSend(piece.begin, bytes, ncclUint8, piece.rank, comm, nccl_stream(stream)));
      }
      for (const Piece& piece : call.incoming) {
        const auto bytes = static_cast<std::size_t>(piece.bytes);
        LT_NCCL(ncclRecv(piece.begin, bytes, ncclUint8, piece.rank, comm, nccl_stream(stream)));
      }
    });
  });
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
    windows_ = make_windows(shared_control(), communicator_, place(), where);
    use_windows();
  }
  return {windows_->memory, windows_->why_none};
}

void NcclBackend::use_windows() {
  if (windows_ && windows_->memory != nullptr) peer_copies_.emplace(windows_->memory, rank(), size());
}

std::shared_ptr<GroupBackend> NcclBackend::split(const std::vector<int>& colors, std::string name) {
  std::shared_ptr<GroupBackend> control = this->control().split(colors, name);
  const auto ranks_of = [&](int color) { return std::count(colors.begin(), colors.end(), color); };
  // A single rank takes tensors on any device.
  if (std::all_of(colors.begin(), colors.end(), [&](int color) { return ranks_of(color) == 1; })) return control;
  // NCCL allows no negative colors, so a group's color is its lowest rank.
  const auto first = std::find(colors.begin(), colors.end(), colors[static_cast<std::size_t>(rank())]);
  const int color = control->size() == 1 ? NcclCommunicator::kNoColor : static_cast<int>(first - colors.begin());
  auto communicator = std::make_shared<NcclCommunicator>(communicator_, color, rank(), name);
  if (control->size() == 1) return control;
  auto group =
      std::make_shared<NcclBackend>(std::move(control), device(), split_hosts(colors), std::move(communicator));
  if (group->size() == size()) group->windows_ = windows_, group->use_windows();
  return group;
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

Size set_least_copied_bytes(Size bytes) { return std::exchange(least_copied_bytes, bytes); }

void pin_nccl_algorithm(const Group& group) {
  const std::vector<int> hosts = hosts_of(group);
  if (std::count(hosts.begin(), hosts.end(), hosts.front()) == group.size()) return;
  setenv("NCCL_ALGO", "Ring", 0);
  setenv("NCCL_PROTO", "Simple", 0);
}

}  // namespace lt
