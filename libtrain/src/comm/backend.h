// The interface of a communication back end, which moves raw memory between the ranks of one group. Group has already
// checked all arguments. Memory is on a device that takes() accepts, never on meta. All ranks call collectives in the
// same order, so a back end may number them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/call_log.h"
#include "comm/collective_log.h"
#include "comm/group_place.h"
#include "libtrain/device/device.h"
#include "libtrain/dtype.h"

namespace lt::comm {

// A started collective. The memory passed to it must stay valid until wait() has returned.
class Transfer {
 public:
  // Construct it before enqueuing its first work on `stream`.
  explicit Transfer(Stream stream = Stream::compute(kCpu))
      : stream_(std::move(stream)), begin_(TimePoint::on(stream_)) {}
  virtual ~Transfer() = default;
  Device device() const { return stream_.device(); }
  const TimePoint& begin() const { return begin_; }
  // Call only after wait().
  virtual TimePoint end() const { return TimePoint::on(stream_); }
  // Blocks until the results are in place; on CUDA the compute stream waits instead. Called at most once.
  virtual void wait() = 0;
  // Gives up without waiting, because peers may never arrive. Until has_ended(), memory is still read and written.
  virtual void abandon() noexcept = 0;
  // Call only after abandon(). Always false if the back end cannot tell.
  virtual bool has_ended() noexcept { return false; }

 protected:
  const Stream& stream() const { return stream_; }

 private:
  Stream stream_;
  TimePoint begin_;
};

// Part r of n elements is [part_begin, part_begin + part_size) as in Group. `part` is this rank's part, inside `full`
// or elsewhere.
struct AllGatherCall {
  Device device;
  DType dtype;
  Size n;
  void* full_N;
  const void* part_P;
};

struct ReduceScatterCall {
  Device device;
  DType dtype, wire;
  Size n;
  void* part_P = nullptr;
  const void* full_N = nullptr;
  void* outgoing = nullptr;  // staging memory (GroupBackend::staging()); valid until wait() has returned
  void* incoming = nullptr;
  void* host_sums = nullptr;
  std::vector<const void*> addends = {};  // each like part_P
  double* squares = nullptr;              // if not null: squares[0] = the sum of the squares of part_P
  double* partials = nullptr;             // for `squares` on CUDA: staging().partials numbers
  bool wants_squares = false;             // true if `squares` is or will be set
  Size piece = 0;                         // SumOfSquares::piece
  bool is_first_half = false;             // true: the next collective is the second half of the same logged call
};

// Bytes sent to a rank or received from it; never empty.
struct Piece {
  int rank;
  void* begin;  // outgoing bytes are only read
  Size bytes;
};

struct AllToAllCall {
  Device device;
  std::vector<Piece> outgoing, incoming;  // between two ranks, in the same order on both
};

struct BroadcastCall {
  Device device;
  DType dtype;
  Size n;
  void* values_N;
  int root;
};

class GroupBackend {
 public:
  explicit GroupBackend(GroupPlace place) : place_(std::move(place)), grid_(place_.grid()), log_(place_) {}
  virtual ~GroupBackend() = default;
  GroupBackend(const GroupBackend&) = delete;
  GroupBackend& operator=(const GroupBackend&) = delete;

  const GroupPlace& place() const { return place_; }
  // Sets GroupPlace::most_arriving. Call it with the same value on all ranks, before the first reduction. Groups made
  // from this one inherit it.
  virtual void let_arrive_at_most(Size bytes) { place_.most_arriving = bytes; }
  const HostGrid& grid() const { return grid_; }
  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  CallLog& log() { return log_; }

  virtual bool takes(Device device) const = 0;
  // True for a meta group, whose other ranks do not exist.
  virtual bool is_paper() const { return false; }

  // The device type whose memory a tensor on `device` uses: its own, or on meta the planned one.
  virtual DeviceType counted_type(Device device) const { return device.type; }

  // Staging memory that a reduce-scatter needs besides its tensors, in elements. `outgoing` holds values converted to
  // `wire`, `incoming` received values of type `wire`, `host_sums` sums over a host's ranks, of type sum_type(wire),
  // and `partials` sums of squares of blocks, f64. staging() reads all of `call` except the pointers. Memory plans rely
  // on its result, so it is the same for every back end.
  struct Staging {
    Size outgoing = 0, incoming = 0, host_sums = 0, partials = 0;
  };
  Staging staging(const ReduceScatterCall& call) const;
  // How many elements of each part a reduce-scatter exchanges at a time. On a GPU a part is cut into equal slices of
  // whole blocks of kernels::kSumBlock elements. The number of slices is the smallest that keeps the incoming bytes
  // within GroupPlace::most_arriving, but a slice has at least one block. The last slice may be smaller. On the CPU, or
  // if n is not a multiple of size() * kernels::kSumPack, a part is one slice. Results do not depend on slices.
  Size elements_at_once(const ReduceScatterCall& call) const;
  // How many parts a rank receives in a reduce-scatter, not counting sums from other hosts.
  Size arriving_parts(const HostGrid& grid) const {
    return grid.is_one_stage() ? size() - 1 : (grid.ranks - 1) * grid.hosts;
  }
  static DType sum_type(DType wire) { return wire == DType::f64 ? DType::f64 : DType::f32; }
  // The stages in which n elements on `device` are gathered or added: first among the ranks of each host, then among
  // hosts. On the CPU, or if parts have different sizes, there is one stage, as if each host had one rank.
  HostGrid stages(Device device, Size n) const {
    const bool in_two = counted_type(device) == DeviceType::cuda && n % size() == 0;
    return in_two ? grid_ : HostGrid{size(), 1};
  }

  // Each returns null if the collective is already done.
  virtual std::unique_ptr<Transfer> all_gather(const AllGatherCall& call) = 0;
  virtual std::unique_ptr<Transfer> reduce_scatter(const ReduceScatterCall& call) = 0;
  virtual std::unique_ptr<Transfer> all_to_all(const AllToAllCall& call) = 0;
  virtual std::unique_ptr<Transfer> broadcast(const BroadcastCall& call) = 0;
  virtual PeerMemory peer_memory(Device) { return {}; }
  // Gives up the group's work in flight on its device; no collective may follow.
  virtual void abandon() noexcept {}
  virtual void barrier() = 0;
  virtual void idle_barrier() { barrier(); }

  virtual std::vector<std::string> all_gather_bytes(const std::string& mine) = 0;
  virtual std::string broadcast_bytes(const std::string& value, int root) = 0;

  // The group of the ranks r with colors[r] == colors[rank()], in rank order.
  virtual std::shared_ptr<GroupBackend> split(const std::vector<int>& colors, std::string name) = 0;
  // A group of the same ranks without this group's device support.
  virtual std::shared_ptr<GroupBackend> duplicate_patient(std::string name) = 0;

 protected:
  // GroupPlace::hosts of the group that split() makes.
  std::vector<int> split_hosts(const std::vector<int>& colors) const;
  // This rank's place in the group that split() or duplicate_patient() makes. Call it once per group made.
  GroupPlace split_place(const std::vector<int>& colors, std::string name);
  GroupPlace patient_place(std::string name);

  Size begin_of(Size n, int r) const { return Group::part_begin(n, size(), r); }
  Size size_of(Size n, int r) const { return Group::part_size(n, size(), r); }
  // Visits the other ranks, starting at the next neighbour, so that not all ranks send to the same one first.
  template <class Each>
  void for_peers(Each&& each) const {
    for (int i = 1; i < size(); ++i) each((rank() + i) % size());
  }

 private:
  GroupPlace place_;
  HostGrid grid_;
  CallLog log_;
  std::uint64_t splits_ = 0;
};

// During the scope, excludes this thread's collectives and waits from the totals if the group is patient
// (GroupPlace::patient).
class GroupCounting {
 public:
  explicit GroupCounting(const GroupBackend& backend) {
    if (backend.place().patient) uncounted_.emplace();
  }

 private:
  std::optional<UncountedScope> uncounted_;
};

// local_groups.cpp
std::shared_ptr<GroupBackend> make_self_backend(GroupPlace place);
std::shared_ptr<GroupBackend> make_meta_backend(GroupPlace place, DeviceType planned);

}  // namespace lt::comm
