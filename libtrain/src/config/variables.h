// The environment variables that the program reads, except those that set configuration keys (LTRAIN_SECTION_KEY) and
// those by which Open MPI, Slurm and torchrun describe a rank (comm/launch_info.cpp).
#pragma once

#include <string_view>

namespace lt::config {

// Begins the name of every variable that belongs to the program. One that is neither a key nor below is an error.
inline constexpr std::string_view kVariablePrefix = "LTRAIN_";

struct Variable {
  std::string_view name, help;
};

inline constexpr Variable kVariables[] = {
    {"LTRAIN_FAULT", "injects a fault"},
    {"LTRAIN_TOKEN", "secret with which ranks meet without MPI; `ltrain launch` sets it"},
    {"LTRAIN_RESTART", "set by `ltrain launch` for its ranks"},
    {"LTRAIN_COMMAND", "set by `ltrain launch` for its ranks"},
    {"LTRAIN_DIE_WITH_PARENT", "set by `ltrain launch` for its ranks"},
    {"LTRAIN_LISTEN_FD", "set by `ltrain launch` for its ranks"},
    {"LIBTRAIN_CPU",
     "v1 or v3 lowers the instruction set of libtrain's CPU kernels; no effect if built with LIBTRAIN_NATIVE"},
    {"OMP_NUM_THREADS", "threads of a rank, instead of its share of the cores"},
    {"NCCL_WIN_ENABLE", "0 disables symmetric windows; NCCL's kernels then move the data"},
    {"NCCL_CUMEM_ENABLE", "0 disables symmetric windows; NCCL's kernels then move the data"},
    {"NCCL_HOSTID", "name that tells a rank's host from others, instead of the host's own"},
    {"TMPDIR", "folder of Open MPI's session folders, which `ltrain launch` cleans up; default: /tmp"},
    {"OMPI_MCA_plm_rsh_agent", "command with which `ltrain launch` reaches the hosts of --hostfile, instead of ssh"},
};

}  // namespace lt::config
