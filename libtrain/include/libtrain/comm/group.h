// Group: ranks that communicate. A copyable handle over a back end: `self` (one rank), MPI or TCP (tensors on the CPU),
// NCCL (tensors on CUDA devices), or meta (a dry run at any size: counts bytes and moves nothing).
// All ranks of a group must call its collectives in the same order. They run in that order. To overlap two collectives,
// call them on a group and its duplicate(); over NCCL even these run one after the other.
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
class BlockSource;  // memory/allocation.h
}

namespace LT_API lt {

// A collective in flight. The caller must keep its tensors alive, and must not touch them until wait() has returned.
// On a GPU, the collective starts after the work that the compute stream holds at the call, and wait() makes that
// stream wait for it. On the CPU, wait() blocks. The destructor waits too and swallows errors. During stack unwinding
// it gives the collective up instead, because peers may never arrive.
class Work {
 public:
  struct State;
  Work();
  explicit Work(std::unique_ptr<State> state);
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();

  // Does nothing unless pending(). Throws CommError if communication failed.
  void wait();
  bool pending() const { return state_ != nullptr; }
  // True if the collective's group has other ranks. False after wait().
  bool has_peers() const;

 private:
  std::unique_ptr<State> state_;
};

// Memory that peers can write directly.
struct PeerMemory {
  // Allocates windows: blocks of symmetric memory, which all ranks of a host can write. All ranks of the group must
  // allocate and release blocks of the same sizes in the same order. Null: there are no windows; use any memory.
  std::shared_ptr<memory::BlockSource> windows;
  std::string why_none;  // why windows are unavailable; empty if available, or unsupported by design
};

// A contiguous tensor to send to a rank or to receive from it. An empty tensor sends nothing.
struct Message {
  int rank = 0;
  Tensor values = {};
};

// Where a sum of squares goes, and its order.
struct SumOfSquares {
  Tensor sum = {};  // f64, one element; undefined: no sum is wanted
  // Elements of a piece. A part consists of 1, 2, 4, ... or 64 pieces, whose sums are added in tree order. So if the
  // ranks together hold the same pieces, the sum over ranks, in tree order, does not depend on their number. 0: no
  // pieces.
  Size piece = 0;
};

// Collectives throw UsageError for arguments that break the rules below, and BrokenCommError if communication fails.
// Functions that make a group throw CommError if it cannot be set up.
class Group {
 public:
  static constexpr int kMostAddends = 32;  // of reduce_scatter()
  // A group of one rank.
  Group();
  explicit Group(std::shared_ptr<comm::GroupBackend> backend);
  // A meta group, for planning: rank `rank` of `size`, without peers. Each call counts its bytes, and allocates the
  // same memory as for tensors on a device of type `planned` (cpu: MPI; cuda: NCCL). Each `ranks_per_host` consecutive
  // ranks share a host (0: all ranks do); the staging memory of CUDA ranks depends on it. Throws UsageError if `rank`
  // is not in [0, size).
  static Group meta(int rank, int size, DeviceType planned = DeviceType::cpu, int ranks_per_host = 0);
  // A meta group of the same rank and size, for planning this group's work with tensors on `device`. If this is a meta
  // group already, its planned device type stays and `device` has no effect.
  Group on_meta(Device device) const;
  // A group of the same ranks that uses NCCL for tensors on `device`; everything else travels as before. Each rank must
  // have a different CUDA device. Groups split from the result use NCCL too. Every rank must call it. A group of one
  // rank needs no NCCL and returns itself. Throws UsageError if the build has no NCCL, if `device` is not a CUDA
  // device of this machine, or if two ranks have the same device. Throws CommError if NCCL cannot start.
  // Destroying the last copy waits for the collectives in flight, but at most 15 s for NCCL if a peer is gone.
  Group with_nccl(Device device) const;
  // A group of the same ranks that sends tensors on the CUDA device `device` through host memory, without NCCL. It is
  // much slower. Its sums have the same bits as sums on the CPU. Throws UsageError if `device` is not a usable CUDA
  // device, and for a meta group.
  Group through_host(Device device) const;

  int rank() const;
  int size() const;

  // The first element, and the number of elements, of a rank's shard ("part") of a flat tensor of n elements. Shard r
  // is [min(n, r*s), min(n, (r+1)*s)) with s = ceil(n / size). It may be empty.
  static Size part_begin(Size n, int size, int rank);
  static Size part_size(Size n, int size, int rank);

  // `full` receives the shards of all ranks. `part` is this rank's shard: its range of `full`, or memory outside of
  // `full`. Both tensors are flat and contiguous, and have the same dtype and device.
  Work all_gather(std::string_view name, const Tensor& full, const Tensor& part) const;
  // Sums `full` over all ranks, adds the `addends` to this rank's shard of the sum, one after another, and writes the
  // result to `part`. `part` is as in all_gather(); the rest of `full` stays unchanged. The addends have the dtype and
  // the size of `part`; one of them may be `part`. There are at most kMostAddends. If squares.sum (f64, one element) is
  // defined, it receives the sum of the squares of the new `part`.
  // `full` has dtype f32, f64 or bf16, and so has `wire`, the dtype in which values travel. The values of every rank
  // are rounded to it, also of a single rank. They are added in f32 (f64 if `wire` is f64) in tree order: pairs of
  // ranks, then pairs of pairs, and so on; the last of an odd number moves up unchanged. So the result depends on no
  // algorithm, timing or device. CUDA ranks add in two stages if all shards have one size and every host has the same
  // number of consecutive ranks: first the ranks of each host, then the hosts, each in tree order. If the number of
  // ranks per host is a power of two, the bits are those of one stage. Sums of hosts travel as f32 (f64 if `wire` is
  // f64).
  Work reduce_scatter(std::string_view name, const Tensor& part, const Tensor& full, DType wire,
                      std::span<const Tensor> addends = {}, const SumOfSquares& squares = {}) const;
  // Sums `full` over all ranks in place, with the same bits as reduce_scatter() followed by all_gather(). On return
  // `full` holds the sum; on a GPU, it does for later work on the compute stream.
  void all_reduce(std::string_view name, const Tensor& full, DType wire) const;
  // Sends the messages `outgoing` and receives the messages `incoming`, all on `device`. The messages from one rank to
  // another, or to itself, must have the same order and sizes in the sender's and the receiver's list. `whole`: total
  // bytes of all messages of all ranks, equal on all ranks; for the log.
  Work all_to_all(std::string_view name, Device device, std::span<const Message> outgoing,
                  std::span<const Message> incoming, Size whole) const;
  // Copies the values of rank `root` to all ranks. `tensor` is contiguous, and has the same size on all ranks.
  Work broadcast(std::string_view name, const Tensor& tensor, int root) const;
  // Blocks until all ranks have called it.
  void barrier() const;
  // Like barrier(), but for ranks that are idle while others work: a waiting rank sleeps and frees its core. It returns
  // up to a millisecond later.
  void idle_barrier() const;

  // Blocking exchanges of small host data, not counted in totals. The first returns every rank's string, in rank order;
  // the second returns the `value` of rank `root`. Without MPI, they throw UsageError for strings that together exceed
  // 1 GiB.
  std::vector<std::string> all_gather_bytes(const std::string& mine) const;
  std::string broadcast_bytes(const std::string& value, int root) const;

  // The group of the ranks that have this rank's color, ordered by rank. `name` appears in logs and errors. Every rank
  // must call it. In the first form, `color` gives the color of any rank and must be the same function on all ranks.
  // The second form asks the peers for their colors, so it throws UsageError for a meta group of more than one rank.
  Group split(const std::function<int(int rank)>& color, std::string_view name) const;
  Group split(int color, std::string_view name) const;
  // A group of the same ranks, whose collectives may overlap with this group's. All ranks must call the collectives of
  // both groups in one order, from one thread.
  Group duplicate(std::string_view name) const;
  // Like duplicate(), but limits the staging memory of reductions on GPUs: at most `bytes` bytes arrive at a time, but
  // at least one block of 4096 elements from each rank. Groups made from the result inherit the limit. Without this
  // call the limit is 1 GiB. The bits of a sum do not depend on it.
  Group duplicate_in_slices(std::string_view name, Size bytes) const;
  // Like duplicate(), but for a background thread, while other threads use other groups. A waiting call sleeps and
  // frees its core, so calls return up to a millisecond later. Neither totals nor take_waiting_ms() count them. The
  // group takes no tensors on CUDA devices.
  Group duplicate_patient(std::string_view name) const;

  // Returns windows for tensors on `device` if all ranks can have them. The first call tests that. Later calls return
  // the same answer, also on duplicates of this group that were made after the first call. Every rank must call it.
  // Throws CommError.
  // Copies into windows occupy no multiprocessor. all_gather() makes such copies if `full` lies in a window, and
  // reduce_scatter() if its staging memory does. Both then require shards of one size, and memory at the same offset of
  // the same window on all ranks; otherwise they copy without windows. The bits do not change. Ranks on several hosts
  // can have windows if every host has the same number of consecutive ranks, at least two.
  PeerMemory peer_memory(Device device) const;

  // For stack unwinding: gives up the pending device work of this group. That work may wait for a dead peer, and
  // freeing memory would wait for that work. Over NCCL, the call takes up to 5 s. Then all groups that are related to
  // this one by splits throw CommError for collectives on the device, and for splits that need a new communicator. Over
  // other back ends the call does nothing.
  void abandon() const noexcept;

  // The last kLogLength collectives of this group, oldest first. Includes exchanges of bytes.
  static constexpr int kLogLength = 256;
  std::vector<CollectiveRecord> log() const;

 private:
  friend void collectively(const Group& group, const std::function<void()>& body);
  std::shared_ptr<comm::GroupBackend> backend_;
};

// Returns the process's collectives that were started or waited for since the last call of take_comm_lap() or
// take_comm_totals(). Calling them is optional: after some thousands of collectives, finished ones are kept as sums.
CommLap take_comm_lap();
inline std::vector<CommTotal> take_comm_totals() { return take_comm_lap().totals(); }
// Returns for how many milliseconds other ranks have blocked this process since the last call: in waits for
// collectives, barriers and exchanges of bytes. Excludes the process's own work in these calls.
double take_waiting_ms();
// During the scope, the totals exclude this thread's collectives, and take_waiting_ms() excludes its waits. For
// rehearsals (dry runs of the step on shapes only), which send nothing.
class UncountedScope {
 private:
  const ContextMemberScope<&Context::counts_collectives> counts_{false};
};

// Runs `body` on every rank and shares its failure. If `body` throws on some ranks, all ranks throw the error of the
// lowest of these: UsageError and DataError keep their type, any other error becomes an Error. The error is marked
// shared() if the group contains all ranks of the run. Every rank of the group must call it.
// A rank whose `body` throws stops there, while the others continue. If they then enter a collective inside `body`, of
// this group or of any group with that rank, they wait forever. So `body` must not call a collective after something
// that may throw on some ranks only. It may do so after something that throws on all ranks alike, such as a nested
// collectively().
void collectively(const Group& group, const std::function<void()>& body);

}  // namespace lt
