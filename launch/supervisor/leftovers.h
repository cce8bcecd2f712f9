// Leftovers of an attempt on this host when its ranks are killed: processes, shared memory files, MPI's session folder.
// Invariant: nothing else is touched. A process belongs to the attempt if its environment holds the attempt's mark. A
// file is removed if a process of the attempt was seen to map it, MPI or NCCL named it, and no living process uses it.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace lt::launch {

// Processes of this user, except this one, whose environment has the entry `mark`, "NAME=value".
std::vector<pid_t> marked_processes(const std::string& mark);

// Whether it runs the program of this process: then it is a rank, not a helper of the launcher.
bool runs_this_program(pid_t pid);

// Kills the marked processes and waits until none is left. Returns their number. Throws InternalError if one does not
// end.
int end_marked_processes(const std::string& mark);

class SharedMemoryFiles {
 public:
  // Records the files named by MPI or NCCL that these processes map.
  void note(const std::vector<pid_t>& processes);
  // Removes the recorded files that no process maps or has open any more. Returns their number.
  int remove_unused();

 private:
  std::set<std::string> seen_;  // paths
};

// Removes the session folder of the mpirun with this process id.
void remove_session_folder(pid_t mpirun);

}  // namespace lt::launch
