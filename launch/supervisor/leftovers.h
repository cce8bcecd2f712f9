// Removes the leftovers of an attempt on this host after its ranks were killed: processes, shared memory files and
// MPI's session folder. Invariant: nothing else is touched. A process belongs to the attempt if its environment holds
// the attempt's mark. A file is removed only if a process of the attempt used it, its name is one that MPI or NCCL
// gives, and no living process uses it.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace lt::launch {

// Returns this user's processes, except this one, whose environment has the entry `mark`, "NAME=value".
std::vector<pid_t> marked_processes(const std::string& mark);

// True if the process runs the same program as this one. It is then a rank, not a helper of the launcher.
bool runs_this_program(pid_t pid);

// Kills the marked processes and waits until none is left. Returns their number. Throws InternalError if one has not
// ended after 10 s.
int end_marked_processes(const std::string& mark);

class SharedMemoryFiles {
 public:
  // Records the shared memory files of MPI and NCCL that these processes map or have open.
  void note(const std::vector<pid_t>& processes);
  // Removes this user's recorded files that no process maps or has open. Returns their number. Forgets all records.
  int remove_unused();

 private:
  std::set<std::string> seen_;  // paths
};

// Removes the session folder of the mpirun with this process id.
void remove_session_folder(pid_t mpirun);

}  // namespace lt::launch
