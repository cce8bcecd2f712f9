// The ranks of this run: this process's rank, the launcher that assigned it, and the group of all ranks.
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

// This process's rank in the run, read from the launcher's environment.
struct LaunchInfo {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // on this host
  std::string source = "alone";        // "Open MPI", "Slurm", "torchrun variables" or "alone"
  // False: no variable says which ranks share this host. local_rank and local_size then assume that all ranks do, until
  // init() has asked the ranks for their hosts.
  bool host_is_known = true;
};

// Reads the first complete set of these variables: OMPI_COMM_WORLD_*; SLURM_*, only inside srun (SLURM_STEP_ID names a
// step); RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, with LOCAL_RANK and LOCAL_WORLD_SIZE if they are set. Without a
// complete set the process is alone. Throws CommError for an invalid value, and for an incomplete set that names more
// than one rank, such as WORLD_SIZE=2 without RANK.
LaunchInfo discover_ranks();

// The CPU threads of a rank.
struct ThreadCount {
  int count = 1;
  std::string reason;  // for logs: "2 cores of this host over 2 ranks"
};

// How ranks that meet without MPI agree on a secret token, by which they recognise each other. The environment variable
// LTRAIN_TOKEN holds it: 32 hexadecimal digits, the same on all ranks. If it is not set, rank 0 draws a token and
// writes it to a file in a folder that all ranks share. Only the owner can read the file, and it exists only while
// ranks meet.
struct MeetingOptions {
  // Returns the folder for the file. Called only if LTRAIN_TOKEN is not set; may throw. If this function is empty,
  // LTRAIN_TOKEN is required.
  std::function<std::string()> shared_folder = {};
};

// Keeps MPI initialised from init() to the destructor of the last copy. A copy that is destroyed during stack unwinding
// does not finalise MPI, because that would wait for peers that may never arrive. A program without run_program() must
// therefore declare its World before the try block that catches its errors.
class World {
 public:
  int rank() const { return info_.rank; }
  int size() const { return info_.size; }
  const LaunchInfo& info() const { return info_; }
  // The group of all ranks for tensors on the CPU.
  const Group& group() const { return group_; }
  // True if the ranks met over MPI; false for one rank, and for ranks that met over TCP.
  bool over_mpi() const { return over_mpi_; }
  // The number of OpenMP threads that init() set. It stays the same if the program sets another number later.
  const ThreadCount& threads() const { return threads_; }

  // The device of this rank. For cuda, the one whose index is the rank's local rank, or device 0 if this process sees
  // only one. The default type is best_device().
  Device device(DeviceType type) const;
  Device device() const { return device(best_device()); }
  // The group of all ranks for tensors on `device`, each rank's own; uses NCCL for CUDA. Every rank must call it.
  // Throws UsageError if the devices differ in type or two ranks have the same one, and the errors of with_nccl().
  Group group(Device device) const;

  // For a rank that cannot continue while the others can. Over MPI, ends all ranks of the run with this exit code.
  // Without MPI, ends this rank: exchanges on the other ranks then throw, and a Watchdog ends the ranks that wait in
  // NCCL. This rank ends within 5 s in any case.
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

// Call it once, at the beginning of main(). If the environment names more than one rank, initialises MPI with
// MPI_THREAD_MULTIPLE. Without a launcher that MPI knows, the ranks meet over TCP at MASTER_ADDR:MASTER_PORT instead;
// their tensors on the CPU travel over TCP too, slower than over MPI. Throws CommError if the ranks cannot meet, or if
// an environment variable is invalid.
// Sets the number of OpenMP threads of the calling thread to this rank's share of the cores that affinity, container
// quotas and Slurm grant. OMP_NUM_THREADS takes precedence if it is set.
// Opens /dev/null for each of the file descriptors 0 to 2 that is closed, so that no other file gets its number.
World init(int& argc, char**& argv, const MeetingOptions& meeting = {});

}  // namespace lt
