// Ranks that no MPI launcher started: their meeting place, their token, and the group of all ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/backend.h"
#include "libtrain/comm/world.h"
#include "libtrain/error.h"

namespace lt::comm {

struct MeetingPlace {
  std::string host;
  int port = 0;
};

// Reads MASTER_ADDR and MASTER_PORT; nullopt unless both are set. If TORCHELASTIC_USE_AGENT_STORE is "True", torchrun's
// agent itself listens at that port, so the ranks use the next one. Throws CommError if the port is invalid.
std::optional<MeetingPlace> meeting_place();

// Names a variable that a launcher sets for rank 0: the number of a descriptor that already listens at MASTER_PORT, so
// that no other process takes the port. Other descriptors are ignored.
inline constexpr const char* kListenVariable = "LTRAIN_LISTEN_FD";

// All ranks must call it. Throws CommError if there is no token, if place.host has no address (at once), or if the
// ranks do not meet in time.
std::shared_ptr<GroupBackend> meet_without_mpi(const MeetingPlace& place, const LaunchInfo& info,
                                               const MeetingOptions& options);

// This host's name.
std::string host_name();
// Sets info.local_rank and info.local_size. `hosts`: the host name of each rank.
void learn_host_ranks(LaunchInfo& info, const std::vector<std::string>& hosts);

}  // namespace lt::comm
