// Group: ranks that communicate. A copyable handle over a back end: `self` (one rank), MPI (tensors on the CPU), NCCL
// (on CUDA devices), or meta (any size; counts bytes and moves nothing). All ranks must call the collectives of a group
// in the same order, in which they run. Groups whose collectives may overlap are duplicates of each other; over NCCL
// their collectives still take turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/device/context.h"
#include "libtrain/profile/collectives.h"
#include "libtrain/tensor/tensor.h"

namespace lt::comm {
class GroupBackend;  // comm/backend.h
}
namespace lt::memory {
class BlockSource;  // memory/buffer.h
}

namespace LT_API lt {

// A collective in flight. Its tensors must stay alive and untouched until wait() has returned. On a GPU it starts after
// the work enqueued on the compute stream at the call, and wait() makes that stream wait; on the CPU wait() blocks. The
// destructor waits, except during stack unwinding: then it gives up, because peers may never arrive.
class Work {
 public:
  struct State;
  Work();
  explicit Work(std::unique_ptr<State> state);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  void wait();
  bool pending() const { return state_ != nullptr; }
  // Whether other ranks take part in it. False after wait().
  bool has_peers() const;

 private:
  std::unique_ptr<State> state_;
};

// Memory that all ranks of a group can write directly.
struct PeerMemory {
  // Windows: blocks that each rank has mapped on all others of its host. A block must be allocated and released on all
  // ranks, in the same order and sizes. Null: any memory is as good.
  std::shared_ptr<memory::BlockSource> windows;
  std::string why_none;  // why there are no windows where there might be; empty for groups that never have any
};

// Contiguous values that are sent to a rank or received from it. Without elements, nothing is sent.
struct Message {
  int rank;
  Tensor values;
};

class Group {
 public:
  // One rank, alone.
  Group();
  explicit Group(std::shared_ptr<comm::GroupBackend> backend);
  // Rank `rank` of `size`, for planning. Every call counts its bytes and allocates what it would for tensors on a
  // device of type `planned` (cpu: MPI, cuda: NCCL).
  // `ranks_per_host` neighbours share a host (0: all do), on which the staging of CUDA ranks depends.
  static Group meta(int rank, int size, DeviceType planned = DeviceType::cpu, int ranks_per_host = 0);
  // The same rank and size, for planning this group's work with tensors of `device`. A meta group stays one.
  Group on_meta(Device device) const;
  // The same ranks with NCCL for tensors on `device`, a different CUDA device for each rank; everything else travels as
  // before. Groups split from it use NCCL too. Every rank must call it. A group of one rank needs no NCCL and returns
  // itself. Throws UsageError if the build has no NCCL or the device does not exist, CommError if NCCL cannot start.
  // Destroying the last copy waits for the collectives in flight, for those that NCCL runs at most 15 s if peers have
  // gone.
  Group with_nccl(Device device) const;
  // The same ranks for tensors on a CUDA device without NCCL: they travel through host memory. Much slower; the sums
  // are those of the CPU. Throws UsageError.
  Group through_host(Device device) const;

  int rank() const;
  int size() const;

  // Part r of a flat tensor of n elements is [min(n, r*s), min(n, (r+1)*s)) with s = ceil(n / size); it may be empty.
  static Size part_begin(Size n, int size, int rank);
  static Size part_size(Size n, int size, int rank);

  // `full` receives all parts. `part` is this rank's: the range of `full` itself, or elsewhere. Both are flat and
  // contiguous and have one dtype.
  Work all_gather(std::string_view name, const Tensor& full, const Tensor& part) const;
  // `part` (+)= this rank's part of the sum of all ranks' `full`. Values travel as `wire` (f32, f64 or bf16) and are
  // added in f32 (f64 for f64) in tree order: pairs of ranks, then pairs of pairs, and so on; the last of an odd number
  // goes up unchanged. So the result depends on no algorithm, timing or device. If parts have one size and every host
  // has the same number of CUDA ranks, numbered one after the other, the ranks of each host are added first, then the
  // hosts, both in tree order: the same sums if that number is a power of two. Sums of hosts travel as f32 (f64 for
  // f64).
  // `part` may be the range of `full`; the rest of `full` stays unchanged. squares[0] = the sum of the squares of the
  // new `part`, in f64, unless `squares` is undefined.
  Work reduce_scatter(std::string_view name, const Tensor& part, const Tensor& full, DType wire,
                      bool accumulate = false, const Tensor& squares = {}) const;
  // reduce_scatter() and all_gather() in place, with the same bits as those two.
  void all_reduce(std::string_view name, const Tensor& full, DType wire) const;
  // Every rank sends `outgoing` and receives `incoming`, all on one device. The messages from one rank to another, or
  // to itself, arrive in the order of both lists and have the same sizes in both. `whole` is the total bytes of all
  // messages of all ranks, equal on all ranks.
  Work all_to_all(std::string_view name, Device device, std::span<const Message> outgoing,
                  std::span<const Message> incoming, Size whole) const;
  Work broadcast(std::string_view name, const Tensor& tensor, int root) const;
  void barrier() const;
  // A barrier for ranks that are idle while others work: a waiting rank sleeps and frees its core. It ends up to a
  // millisecond later than barrier().
  void idle_barrier() const;

  // Blocking exchange of small host data, not counted in totals. Returns every rank's string, in rank order.
  std::vector<std::string> all_gather_bytes(const std::string& mine) const;
  std::string broadcast_bytes(const std::string& value, int root) const;

  // The ranks with the same color, ordered by rank; `name` appears in logs and errors. The first form takes a function
  // that gives the color of every rank and is the same on all ranks. A meta group of more than one rank supports that
  // form only, because it cannot ask its peers.
  Group split(const std::function<int(int rank)>& color, std::string_view name) const;
  Group split(int color, std::string_view name) const;
  // A duplicate's collectives may overlap with this group's. All ranks must call those of both in one order, from one
  // thread.
  Group duplicate(std::string_view name) const;
  // A duplicate whose reductions on GPUs let at most `bytes` arrive at a time, or a block of 4096 elements from each
  // rank, and so do groups made of it. Otherwise that is 1 GiB. The bits do not depend on it.
  Group duplicate_in_slices(std::string_view name, Size bytes) const;
  // A duplicate for a background thread, beside threads that use other groups. A waiting call sleeps and frees its
  // core, so calls end up to a millisecond later. Neither totals nor take_waiting_ms() count them. It takes no tensors
  // on CUDA devices.
  Group duplicate_patient(std::string_view name) const;

  // The first call tests whether all ranks can have windows for tensors on `device`; later calls return the same
  // answer, also in duplicates of this group that are made after the first call. With parts of one size, all_gather()
  // copies into a `full` that lies in a window without occupying a multiprocessor; so does reduce_scatter() where its
  // staging memory lies in one. The memory must then be at the same place of the same window on all ranks. Ranks of
  // several hosts have windows if every host has the same number of ranks, more than one, numbered one after the other.
  // The bits do not change. Every rank must call it. Throws CommError.
  PeerMemory peer_memory(Device device) const;

  // For stack unwinding: gives up the pending device work of this group, which may wait for a dead peer and would block
  // whoever frees memory. Over NCCL, this group and all groups of its family (those it was split from, and those split
  // from the same one) then refuse collectives on the device, and splits that need a communicator of their own, with
  // CommError; the call takes up to 5 s. Elsewhere it does nothing.
  void abandon() const noexcept;

  // The last kLogLength collectives of this group, including exchanges of bytes, oldest first.
  static constexpr int kLogLength = 256;
  std::vector<CollectiveRecord> log() const;

 private:
  friend void collectively(const Group& group, const std::function<void()>& body);
  std::shared_ptr<comm::GroupBackend> backend_;
};

// The collectives that were started or waited for since the last call of take_comm_lap() or take_comm_totals(). Calling
// it is optional: beyond some thousands, finished ones are kept as sums.
CommLap take_comm_lap();
inline std::vector<CommTotal> take_comm_totals() { return take_comm_lap().totals(); }
// Milliseconds since the last call that this process was blocked by other ranks: in waits of collectives, barriers and
// exchanges of bytes, without its own work around them.
double take_waiting_ms();
// Leaves this thread's collectives out of the totals during the scope, and its waits out of take_waiting_ms(). A
// rehearsal sends nothing.
class UncountedScope {
 private:
  const ContextMemberScope<&Context::counts_collectives> counts_{false};
};

// Runs `body` on every rank and shares its failure. If it throws on some rank, all ranks throw the error of the lowest
// such rank: as the same type for UsageError and DataError, otherwise as Error. The error is marked shared() if the
// group contains all ranks of the run. Every rank of the group must call it.
// A rank that throws leaves `body` while the others go on. If they then enter a collective inside `body`, of this group
// or of any group with that rank, they wait forever. So `body` must not call a collective after something that may
// throw on some ranks only. After something that throws on all ranks alike, such as a nested collectively(), it may.
void collectively(const Group& group, const std::function<void()>& body);

}  // namespace lt
