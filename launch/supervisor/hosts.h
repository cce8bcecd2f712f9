// The hosts of mpirun's --hostfile: the number of ranks for each, and which of them answer.
#pragma once

#include <string>
#include <vector>

namespace lt::launch {

struct Host {
  std::string name;
  int slots = 1;
};

// Reads lines of "NAME [slots=N]". A # begins a comment; the slots of a repeated host add up. Throws DataError for an
// unreadable file, UsageError for one that names no host or makes no sense.
std::vector<Host> read_hostfile(const std::string& path);
std::string hostfile_text(const std::vector<Host>& hosts);
int slots_of(const std::vector<Host>& hosts);

// Whether all of them are this host.
bool are_this_host(const std::vector<Host>& hosts);

// The hosts on which mpirun's launch agent (OMPI_MCA_plm_rsh_agent, or ssh) can run a command. This host always
// answers.
std::vector<Host> answering(const std::vector<Host>& hosts);

}  // namespace lt::launch
