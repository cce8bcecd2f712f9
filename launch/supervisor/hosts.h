// The hosts of mpirun's --hostfile: the number of ranks for each, and which of them answer.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lt::launch {

struct Host {
  std::string name;
  int slots = 1;
};

// Reads lines of "NAME [slots=N]". A # begins a comment; the slots of a repeated host add up. Throws UsageError if the
// file is unreadable, names no host, or has a slots entry that is not a number from 1.
std::vector<Host> read_hostfile(const std::string& path);
std::string hostfile_text(const std::vector<Host>& hosts);
int slots_of(const std::vector<Host>& hosts);

// The number of nodes of the Slurm job that this process belongs to; 1 outside of a job.
int nodes_of_slurm_job();

// Returns the host on which mpirun starts `rank` of `ranks`: it fills one host after another, this host first. Returns
// nullopt if there are more ranks than slots, because mpirun then distributes them otherwise.
std::optional<Host> host_of(int rank, int ranks, std::vector<Host> hosts);

// True if every host is this one.
bool are_this_host(const std::vector<Host>& hosts);

// Returns the hosts on which mpirun's launch agent (OMPI_MCA_plm_rsh_agent; default ssh) can run a command within 10 s.
// This host needs no agent: it is always in the result if it is in `hosts`.
std::vector<Host> answering(const std::vector<Host>& hosts);

}  // namespace lt::launch
