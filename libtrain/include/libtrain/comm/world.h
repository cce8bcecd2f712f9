// The ranks of this run: who they are, where that was learnt from, and the group of all of them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "libtrain/comm/group.h"

namespace lt {

// What a launcher's environment says of this process.
struct LaunchInfo {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on this host
  std::string source = "alone";        // "Open MPI", "Slurm", "torchrun variables" or "alone"
};

// The first complete set of: OMPI_COMM_WORLD_*, SLURM_* (only inside srun: SLURM_STEP_ID of a step), then
// RANK/WORLD_SIZE/LOCAL_RANK/MASTER_ADDR/MASTER_PORT; otherwise alone. Throws CommError for values that make no sense.
LaunchInfo discover_ranks();

// What a rank computes with on the CPU.
struct ThreadCount {
  int count = 1;
  std::string reason;  // in words: "2 cores of this host over 2 ranks"
};

// What ranks without MPI need in order to meet: a secret that strangers at the port do not know. It is LTRAIN_TOKEN of
// the environment, 32 hexadecimal digits; where there is none, rank 0 draws one and leaves it for the time of the
// meeting in a folder that all ranks share, in a file that its owner alone may read.
struct MeetingOptions {
  // The folder that holds the file. Called only where it is needed; may throw. Not set: it must be LTRAIN_TOKEN.
  std::function<std::string()> shared_folder;
};

// MPI from init() to the destructor of the last copy. Keep it outside of the try block whose handler ends the program:
// a copy that is destroyed while an exception passes does not finalise MPI, because the peers may not come there.
class World {
 public:
  int rank() const { return info_.rank; }
  int size() const { return info_.size; }
  const LaunchInfo& info() const { return info_; }
  const Group& group() const { return group_; }
  // As init() set it; a program that changes the number of OpenMP's threads afterwards does so for itself.
  const ThreadCount& threads() const { return threads_; }

  // What this rank computes on: of the host's CUDA devices the one of its number there, or the only one that it sees;
  // by default where best_device() is cuda.
  Device device(DeviceType type) const;
  Device device() const { return device(best_device()); }
  // The group of all ranks for tensors on that device of each: with NCCL on CUDA. Every rank calls it. Throws
  // UsageError where their devices differ in type, or two ranks have the same one.
  Group group(Device device) const;

  // For a rank that cannot go on while the others can. Over MPI it ends all ranks of the run with this exit code.
  // Without MPI it ends this one: exchanges of the others then throw, and a Watchdog ends those that wait in NCCL. This
  // rank has ended within 5 s, whatever the others do.
  [[noreturn]] void abort(int exit_code) const;

 private:
  friend World init(int&, char**&, const MeetingOptions&);
  LaunchInfo info_;
  Group group_;
  ThreadCount threads_;
  std::shared_ptr<void> mpi_;  // finalises MPI
  bool over_mpi_ = false;
};

// Call once, first thing in main(). Initialises MPI with MPI_THREAD_MULTIPLE where the environment says that there is
// more than one rank (one rank needs no MPI). Ranks on GPUs without a launcher that MPI knows meet over TCP at
// MASTER_ADDR:MASTER_PORT; their groups take tensors on CUDA devices alone, with Group::with_nccl(). Throws CommError
// where ranks cannot meet.
// Sets the threads of OpenMP that the calling thread computes with to this rank's share of the cores that affinity, the
// quotas of containers and Slurm grant; OMP_NUM_THREADS wins where it is set.
World init(int& argc, char**& argv, const MeetingOptions& meeting = {});

}  // namespace lt
