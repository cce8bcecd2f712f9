// Collectives of CUDA tensors through host memory, by the group's CPU back end (MPI). Slow: the host waits for the
// device before each collective, and the device for the host after it. For machines on which NCCL does not work between
// ranks, and for comparison.
#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "comm/device_backend.h"
#include "device/cuda.h"
#include "kernels/reduce.h"
#include "libtrain/error.h"
#include "tensor/dispatch.h"

namespace lt::comm {
namespace {

// A pool of pinned memory. A returned block serves the next request of the same size.
class PinnedBuffers : public std::enable_shared_from_this<PinnedBuffers> {
 public:
  explicit PinnedBuffers(int device) : device_(device) {}

  std::shared_ptr<std::byte> take(Size bytes) {
    std::shared_ptr<void> block;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = free_.find(bytes); found != free_.end()) {
        block = std::move(found->second);
        free_.erase(found);
      }
    }
    if (!block) block = device::cuda::allocate_pinned(device_, std::max<Size>(bytes, 1));
    auto* const memory = static_cast<std::byte*>(block.get());
    return {memory, [pool = shared_from_this(), block = std::move(block), bytes](std::byte*) mutable {
              const std::lock_guard lock(pool->mutex_);
              pool->free_.emplace(bytes, std::move(block));
            }};
  }

 private:
  int device_;
  std::mutex mutex_;
  std::multimap<Size, std::shared_ptr<void>> free_;
};

using HostMemory = std::shared_ptr<std::byte>;

// Bytes on the host that are copied to the device.
struct Result {
  void* to;
  const std::byte* from;
  Size bytes;
};

// A transfer between hosts that then copies its results to the device and calls `then`, which may enqueue more work.
class StagedTransfer final : public Transfer {
 public:
  StagedTransfer(const Stream& compute, std::unique_ptr<Transfer> inner, std::vector<HostMemory> memory,
                 std::vector<Result> results, std::function<void()> then = {})
      : Transfer(compute),
        inner_(std::move(inner)),
        memory_(std::move(memory)),
        results_(std::move(results)),
        then_(std::move(then)) {}

  void wait() override {
    if (inner_) inner_->wait();
    for (const Result& result : results_) {
      if (result.bytes > 0) device::cuda::copy(result.to, result.from, result.bytes, stream().cuda());
    }
    if (then_) then_();
    stream().synchronize();  // the next transfer may take the memory
  }
  void abandon() noexcept override {
    if (inner_) inner_->abandon();
  }
  bool has_ended() noexcept override { return !inner_ || inner_->has_ended(); }

 private:
  std::unique_ptr<Transfer> inner_;
  std::vector<HostMemory> memory_;
  std::vector<Result> results_;
  std::function<void()> then_;
};

class HostStagedBackend final : public DeviceBackend {
 public:
  HostStagedBackend(std::shared_ptr<GroupBackend> control, Device device) : DeviceBackend(std::move(control), device) {}

  std::shared_ptr<GroupBackend> split(const std::vector<int>& colors, std::string name) override {
    std::shared_ptr<GroupBackend> control = this->control().split(colors, std::move(name));
    if (control->size() == 1) return control;  // a single rank takes tensors on any device
    return std::make_shared<HostStagedBackend>(std::move(control), device());
  }

 private:
  std::unique_ptr<Transfer> gather_on_device(const AllGatherCall& call) override;
  std::unique_ptr<Transfer> reduce_on_device(const ReduceScatterCall& call) override;
  std::unique_ptr<Transfer> all_to_all_on_device(const AllToAllCall& call) override;
  std::unique_ptr<Transfer> broadcast_on_device(const BroadcastCall& call) override;
  void to_host(std::byte* to, const void* from, Size bytes) const {
    if (bytes > 0) device::cuda::copy(to, from, bytes, compute_.cuda());
  }

  Stream compute_ = Stream::compute(device());
  std::shared_ptr<PinnedBuffers> buffers_ = std::make_shared<PinnedBuffers>(device().index);
};

std::unique_ptr<Transfer> HostStagedBackend::gather_on_device(const AllGatherCall& call) {
  const Size element = dtype_bytes(call.dtype);
  HostMemory full = buffers_->take(call.n * element);
  std::byte* const own = full.get() + begin_of(call.n, rank()) * element;
  to_host(own, call.part_P, size_of(call.n, rank()) * element);
  compute_.synchronize();
  auto inner = control().all_gather({kCpu, call.dtype, call.n, full.get(), own});
  const Result result{call.full_N, full.get(), call.n * element};
  return std::make_unique<StagedTransfer>(compute_, std::move(inner), std::vector{std::move(full)},
                                          std::vector{result});
}

std::unique_ptr<Transfer> HostStagedBackend::reduce_on_device(const ReduceScatterCall& call) {
  const Size element = dtype_bytes(call.dtype), part_bytes = size_of(call.n, rank()) * element;
  HostMemory full = buffers_->take(call.n * element), part = buffers_->take(part_bytes);
  to_host(full.get(), call.full_N, call.n * element);
  ReduceScatterCall of_hosts{kCpu, call.dtype, call.wire, call.n, part.get(), full.get()};
  std::vector<HostMemory> memory;
  for (const void* const addend : call.addends) {
    memory.push_back(buffers_->take(part_bytes));
    to_host(memory.back().get(), addend, part_bytes);
    of_hosts.addends.push_back(memory.back().get());
  }
  compute_.synchronize();
  const Staging staging = control().staging(of_hosts);
  HostMemory outgoing = buffers_->take(staging.outgoing * dtype_bytes(call.wire)),
             incoming = buffers_->take(staging.incoming * dtype_bytes(call.wire));
  HostMemory squares = buffers_->take(static_cast<Size>(sizeof(double)));
  of_hosts.outgoing = outgoing.get(), of_hosts.incoming = incoming.get();
  // The squares of pieces are added as one rank adds them, on the device.
  const bool on_device = call.squares != nullptr && call.piece > 0, on_host = call.squares != nullptr && !on_device;
  if (on_host) of_hosts.squares = reinterpret_cast<double*>(squares.get());
  auto inner = control().reduce_scatter(of_hosts);
  std::vector<Result> results{{call.part_P, part.get(), part_bytes}};
  if (on_host) results.push_back({call.squares, squares.get(), static_cast<Size>(sizeof(double))});
  const auto add_squares = [call, mine = size_of(call.n, rank()), device = device()] {
    tensor::dispatch(device, [&](auto stream) {
      kernels::sum_squares(stream, call.dtype, call.squares, call.part_P, mine, call.partials, call.piece);
    });
  };
  for (HostMemory* buffer : {&full, &part, &outgoing, &incoming, &squares}) memory.push_back(std::move(*buffer));
  return std::make_unique<StagedTransfer>(compute_, std::move(inner), std::move(memory), std::move(results),
                                          on_device ? std::function<void()>(add_squares) : nullptr);
}

std::unique_ptr<Transfer> HostStagedBackend::all_to_all_on_device(const AllToAllCall& call) {
  AllToAllCall of_hosts = call;
  of_hosts.device = kCpu;
  std::vector<HostMemory> memory;
  std::vector<Result> results;
  for (Piece& piece : of_hosts.outgoing) {
    std::byte* const here = memory.emplace_back(buffers_->take(piece.bytes)).get();
    to_host(here, piece.begin, piece.bytes);
    piece.begin = here;
  }
  for (Piece& piece : of_hosts.incoming) {
    std::byte* const here = memory.emplace_back(buffers_->take(piece.bytes)).get();
    results.push_back({piece.begin, here, piece.bytes});
    piece.begin = here;
  }
  compute_.synchronize();
  auto inner = control().all_to_all(of_hosts);
  return std::make_unique<StagedTransfer>(compute_, std::move(inner), std::move(memory), std::move(results));
}

std::unique_ptr<Transfer> HostStagedBackend::broadcast_on_device(const BroadcastCall& call) {
  const Size bytes = call.n * dtype_bytes(call.dtype);
  HostMemory values = buffers_->take(bytes);
  if (call.root == rank()) to_host(values.get(), call.values_N, bytes);
  compute_.synchronize();
  auto inner = control().broadcast({kCpu, call.dtype, call.n, values.get(), call.root});
  const Result result{call.values_N, values.get(), call.root == rank() ? 0 : bytes};
  return std::make_unique<StagedTransfer>(compute_, std::move(inner), std::vector{std::move(values)},
                                          std::vector{result});
}

}  // namespace

}  // namespace lt::comm

namespace lt {

Group Group::through_host(Device device) const {
  require_device(device);
  if (device.type != DeviceType::cuda || backend_->is_paper()) {
    throw UsageError("comm", "through_host: expected ranks that run, each with a CUDA device, got group " +
                                 backend_->place().name + " and device " + to_string(device));
  }
  if (size() == 1) return *this;
  return Group(std::make_shared<comm::HostStagedBackend>(backend_, device));
}

}  // namespace lt
