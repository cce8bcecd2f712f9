// What an attempt leaves on this host when its ranks are killed: processes, files of shared memory, MPI's session
// folder. Invariant: nothing else is touched. A process is the attempt's where its environment holds the attempt's
// mark; a file is removed where a process of the attempt was seen to map it, MPI or NCCL named it, and no living
// process has it.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace lt::launch {

// Processes of this user whose environment has the entry `mark`, "NAME=value"; this one left out.
std::vector<pid_t> marked_processes(const std::string& mark);

// Whether it runs the program that this process runs: a rank, and no launcher's helper.
bool runs_this_program(pid_t pid);

// Kills them and waits until none is left. Returns how many there were. Throws InternalError where one does not go.
int end_marked_processes(const std::string& mark);

class SharedMemoryFiles {
 public:
  // Remembers which of the files that MPI or NCCL named these processes map.
  void note(const std::vector<pid_t>& processes);
  // Removes those that no process maps or has open any more. Returns how many.
  int remove_unused();

 private:
  std::set<std::string> seen_;  // paths
};

// Open MPI's files of the mpirun that had this process id.
void remove_session_folder(pid_t mpirun);

}  // namespace lt::launch
