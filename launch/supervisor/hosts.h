// The hosts of mpirun's --hostfile: how many ranks each takes, and which of them answer.
#pragma once

#include <string>
#include <vector>

namespace lt::launch {

struct Host {
  std::string name;
  int slots = 1;
};

// Lines of "NAME [slots=N]"; a # begins a comment, a host named twice has as many slots. Throws DataError for a file
// that cannot be read, UsageError for one that names no host or makes no sense.
std::vector<Host> read_hostfile(const std::string& path);
std::string hostfile_text(const std::vector<Host>& hosts);
int slots_of(const std::vector<Host>& hosts);

// Whether all of them are this host.
bool are_this_host(const std::vector<Host>& hosts);

// Those on which mpirun's launch agent (OMPI_MCA_plm_rsh_agent, or ssh) can run a command; this host always answers.
std::vector<Host> answering(const std::vector<Host>& hosts);

}  // namespace lt::launch
