// Group: ranks that communicate. A copyable handle over a back end: `self` (one rank), MPI (tensors on the CPU), NCCL
// (on CUDA devices), or meta (any size; counts bytes and moves nothing). Collectives of one group run in the order in
// which they are called, which must be the same on all ranks. Groups that may overlap are duplicates of each other;
// over NCCL their collectives still take turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/device/context.h"
#include "libtrain/profile/collectives.h"
#include "libtrain/tensor/tensor.h"

namespace lt {

// A collective on its way. Its tensors must stay alive and untouched until wait() has returned. On a GPU it starts
// after what the compute stream holds at the call, and wait() makes that stream wait; on the CPU wait() blocks. The
// destructor waits.
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

 private:
  std::unique_ptr<State> state_;
};

class GroupBackend;  // comm/backend.h
class BlockSource;   // memory/buffer.h

// Where the tensors of a group's gathers lie best.
struct GatherMemory {
  // Symmetric windows: memory at the same places on all ranks, which each rank reads and writes itself. Whoever
  // allocates or releases a block does so on all ranks, in the same order and sizes. Null: any memory will do.
  std::shared_ptr<BlockSource> windows;
  std::string why_none;  // why there are no windows where there might be; empty for groups that never have any
};

// Values that go to another rank or come from it: contiguous. No elements: nothing travels.
struct Message {
  int rank;
  Tensor values;
};

class Group {
 public:
  // One rank, alone.
  Group();
  explicit Group(std::shared_ptr<GroupBackend> backend);
  // Rank `rank` of `size`, for planning: every call counts its bytes and allocates what it would for tensors of a
  // device of type `planned` (cpu: MPI, cuda: NCCL).
  static Group meta(int rank, int size, DeviceType planned = DeviceType::cpu);
  // The same rank of the same size, planning what this group does with tensors of `device`; a meta group plans on.
  Group on_meta(Device device) const;
  // The same ranks with NCCL for tensors on `device`, a CUDA device of its own for each rank; all else goes the way it
  // went. Groups that are split from it have it too. Every rank must call it. One rank needs no NCCL and gets itself.
  // Throws UsageError for a build without NCCL or a device that is not there, CommError where NCCL cannot start. The
  // last copy waits for the collectives that it started; where peers have gone it gives up after 15 s.
  Group with_nccl(Device device) const;
  // The same for tensors on a CUDA device without NCCL: they travel through memory of the host. Much slower; the sums
  // are those of the CPU, in the order of the ranks. Throws UsageError.
  Group through_host(Device device) const;

  int rank() const;
  int size() const;

  // Part r of a flat tensor of n elements is [min(n, r*s), min(n, (r+1)*s)) with s = ceil(n / size); it may be empty.
  static Size part_begin(Size n, int size, int rank);
  static Size part_size(Size n, int size, int rank);

  // `full` receives all parts; `part` is this rank's, either in place (the range of `full` itself) or elsewhere.
  // Flat, contiguous, one dtype.
  Work all_gather(std::string_view name, const Tensor& full, const Tensor& part) const;
  // `part` (+)= this rank's part of the sum of all ranks' `full`. Values travel as `wire` (f32, f64 or bf16) and are
  // added in f32 (f64 for f64) in the order of the ranks, so the result depends on no algorithm or timing. On CUDA,
  // equal parts of f32 or f64 that travel as they are are added in NCCL's order: see pin_nccl_algorithm(). `part` may
  // be the range of `full`; the rest of `full` is left as it was.
  Work reduce_scatter(std::string_view name, const Tensor& part, const Tensor& full, DType wire,
                      bool accumulate = false) const;
  // reduce_scatter and all_gather in place: the same bits as the two.
  void all_reduce(std::string_view name, const Tensor& full, DType wire) const;
  // Every rank sends `outgoing` and receives `incoming`, all on one device. What one rank sends to another arrives in
  // the order of both lists, with the same sizes; so does what a rank sends to itself. `whole` are the bytes of all
  // messages of all ranks, equal on all ranks.
  Work all_to_all(std::string_view name, Device device, std::span<const Message> outgoing,
                  std::span<const Message> incoming, Size whole) const;
  Work broadcast(std::string_view name, const Tensor& tensor, int root) const;
  void barrier() const;
  // A barrier for ranks that have nothing to do while others work: who waits sleeps, and leaves its core to them. Ends
  // up to a millisecond later than barrier().
  void idle_barrier() const;

  // Small host data, blocking; not counted. Every rank's string, in the order of ranks.
  std::vector<std::string> all_gather_bytes(const std::string& mine) const;
  std::string broadcast_bytes(const std::string& value, int root) const;

  // The ranks with the same color, ordered by rank; `name` appears in logs and errors. The first form gives the color
  // of every rank, the same function on all ranks; a meta group of more than one rank takes only that one, because it
  // has nobody to ask.
  Group split(const std::function<int(int rank)>& color, std::string_view name) const;
  Group split(int color, std::string_view name) const;
  Group duplicate(std::string_view name) const;
  // A duplicate for a thread in the background, beside others that use other groups: who waits in it sleeps, and leaves
  // its core to them. Its calls end up to a millisecond later, and no totals and no take_waiting_ms() count them. It
  // takes no tensors on CUDA devices.
  Group duplicate_patient(std::string_view name) const;

  // Tries on the first call whether all ranks can have windows for tensors on `device`, and says so from then on. An
  // all_gather() takes them where `full` and `part` both lie in blocks, `full` at the same offset on all ranks; other
  // collectives are as before. Every rank must call it. Throws CommError.
  GatherMemory gather_memory(Device device) const;

  // While an exception passes: gives up what the device has yet to do for this group. It may wait for a peer that is
  // gone, and whoever releases memory would wait with it. Over NCCL neither this group nor those that it was split
  // from, or that were split from the same, take further collectives (CommError); it takes up to 5 s. Elsewhere it does
  // nothing.
  void abandon() const noexcept;

  // The last kLogLength collectives of this group, exchanges of bytes included, oldest first.
  static constexpr int kLogLength = 256;
  std::vector<CollectiveRecord> log() const;

 private:
  friend void collectively(const Group& group, const std::function<void()>& body);
  std::shared_ptr<GroupBackend> backend_;
};

// For deterministic runs, before the first with_nccl(): NCCL adds in an order that depends on size and ranks alone.
// Sets NCCL_ALGO=Ring and NCCL_PROTO=Simple in the environment where they are not set. Does nothing in a build without
// NCCL.
void pin_nccl_algorithm();

// The collectives that were started or waited for since the last call of either. A program need not call it: of more
// than some thousand the times of those that are over are kept as sums.
CommLap take_comm_lap();
// Those of `body` alone, which take_comm_lap() then does not return. For the capture of a CUDA graph: their times come
// with its launches, so none is added up before.
CommLap comm_lap_of(const std::function<void()>& body);
// A graph was launched whose capture had those of `lap`.
void repeat_comm_lap(const std::shared_ptr<const CommLap>& lap);
inline std::vector<CommTotal> take_comm_totals() { return take_comm_lap().totals(); }
// Milliseconds that this process was blocked because of other ranks since the last call: in waits of collectives,
// barriers and exchanges of bytes, not in what it does itself around them.
double take_waiting_ms();
// Collectives of this thread during the scope are left out of the totals, and its waits out of take_waiting_ms(): a
// rehearsal sends nothing.
class UncountedScope {
 private:
  const ContextMemberScope<&Context::counts_collectives> counts_{false};
};

// Runs `body` on every rank and makes its failure everybody's: where it threw an Error on some rank, all ranks throw
// the error of the lowest such rank, as the same type where that is UsageError or DataError and otherwise as Error. It
// is marked shared() where the group is all ranks of the run. Every rank of the group must call it.
// A rank that throws leaves `body` while the others go on: a collective that they then enter inside it, of this group
// or of another with that rank, waits for ever. So no collective stands in `body` after what may throw on some ranks
// alone. What all ranks throw alike, as a nested collectively() does, may stand before one.
void collectively(const Group& group, const std::function<void()>& body);

}  // namespace lt
