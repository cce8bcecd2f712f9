// The ranks of this run: this process's place among them, where it was learnt from, and the group of all ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "libtrain/api.h"
#include "libtrain/comm/group.h"

namespace LT_API lt {
class World;
}
namespace lt::comm {
World world_of_one();
}

namespace LT_API lt {

// This process's place in the run, read from the launcher's environment.
struct LaunchInfo {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on this host
  std::string source = "alone";        // "Open MPI", "Slurm", "torchrun variables" or "alone"
  // False: no variable says which ranks share this host. Until init() has learnt it, all of them count as its ranks.
  bool host_is_known = true;
};

// Reads the first complete set of: OMPI_COMM_WORLD_*, SLURM_* (only inside srun: SLURM_STEP_ID of a step), then
// RANK/WORLD_SIZE/MASTER_ADDR/MASTER_PORT, with LOCAL_RANK and LOCAL_WORLD_SIZE if they are set; otherwise the process
// is alone. Throws CommError for values that make no sense, and for WORLD_SIZE (or Open MPI's) above 1 where a variable
// of its set is missing.
LaunchInfo discover_ranks();

// The CPU threads of a rank.
struct ThreadCount {
  int count = 1;
  std::string reason;  // in words: "2 cores of this host over 2 ranks"
};

// How ranks without MPI agree on a secret, which strangers at the port do not know: LTRAIN_TOKEN in the environment, 32
// hexadecimal digits. Without it, rank 0 draws a token and leaves it, during the meeting, in a file in a folder that
// all ranks share; only the owner can read the file.
struct MeetingOptions {
  // Returns the folder for the file. Called only if it is needed; may throw. Unset: LTRAIN_TOKEN is required.
  std::function<std::string()> shared_folder;
};

// Holds MPI from init() to the destructor of the last copy. Keep it outside the try block whose handler ends the
// program: a copy destroyed during stack unwinding does not finalise MPI, because the peers may never reach that point.
class World {
 public:
  int rank() const { return info_.rank; }
  int size() const { return info_.size; }
  const LaunchInfo& info() const { return info_; }
  const Group& group() const { return group_; }
  // False for one rank, and for ranks that met over TCP.
  bool over_mpi() const { return over_mpi_; }
  // As init() set it. The program may change the number of OpenMP threads afterwards; this value stays.
  const ThreadCount& threads() const { return threads_; }

  // The device of this rank: the CUDA device with its number on the host, or the only one that it sees. The default
  // type is best_device().
  Device device(DeviceType type) const;
  Device device() const { return device(best_device()); }
  // The group of all ranks, for tensors on `device` of each; uses NCCL on CUDA. Every rank must call it. Throws
  // UsageError if the devices differ in type or two ranks have the same one.
  Group group(Device device) const;

  // For a rank that cannot go on while the others can. Over MPI it ends all ranks of the run with this exit code.
  // Without MPI it ends this rank: the other ranks' exchanges then throw, and a Watchdog ends those that wait in NCCL.
  // This rank ends within 5 s, whatever the others do.
  [[noreturn]] void abort(int exit_code) const;

 private:
  friend World init(int&, char**&, const MeetingOptions&);
  friend World comm::world_of_one();
  LaunchInfo info_;
  Group group_;
  ThreadCount threads_;
  std::shared_ptr<void> mpi_;  // finalises MPI
  bool over_mpi_ = false;
};

// Call once, first thing in main(). Initialises MPI with MPI_THREAD_MULTIPLE if the environment names more than one
// rank (one rank needs no MPI). Without a launcher that MPI knows, ranks meet over TCP at MASTER_ADDR:MASTER_PORT;
// their tensors on the CPU travel there too, slower than over MPI. Throws CommError if the ranks cannot meet. Sets the
// number of OpenMP threads of the calling thread to this rank's share of the cores that affinity, container quotas and
// Slurm grant. OMP_NUM_THREADS takes precedence if it is set.
// Opens /dev/null at each of the descriptors 0 to 2 that is closed, so that no file gets its number.
World init(int& argc, char**& argv, const MeetingOptions& meeting = {});

}  // namespace lt
