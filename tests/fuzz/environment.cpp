// Fuzzes the launchers' variables and LTRAIN_FAULT. An input is lines NAME=VALUE.
#include <array>
#include <sstream>

#include "device/fault.h"
#include "fuzz/target.h"
#include "libtrain/comm/world.h"

namespace {

constexpr std::array kVariables = {"OMPI_COMM_WORLD_RANK",
                                   "OMPI_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_LOCAL_RANK",
                                   "OMPI_COMM_WORLD_LOCAL_SIZE",
                                   "SLURM_PROCID",
                                   "SLURM_NTASKS",
                                   "SLURM_LOCALID",
                                   "SLURM_STEP_ID",
                                   "SLURM_NODEID",
                                   "SLURM_STEP_TASKS_PER_NODE",
                                   "SLURM_TASKS_PER_NODE",
                                   "RANK",
                                   "WORLD_SIZE",
                                   "LOCAL_RANK",
                                   "LOCAL_WORLD_SIZE",
                                   "MASTER_ADDR",
                                   "MASTER_PORT",
                                   "LTRAIN_FAULT"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const char* name : kVariables) unsetenv(name);
  std::istringstream lines(fuzz::text_of(data, size));
  for (std::string line; std::getline(lines, line);) {
    for (const std::string name : kVariables) {
      if (line.starts_with(name + "=")) setenv(name.c_str(), line.c_str() + name.size() + 1, 1);
    }
  }
  fuzz::read_or_refuse([] {
    const lt::LaunchInfo info = lt::discover_ranks();
    if (info.rank < 0 || info.rank >= info.size || info.local_rank >= info.local_size) std::abort();
  });
  fuzz::read_or_refuse([] { lt::device::arm_fault(0); });
  return 0;
}
