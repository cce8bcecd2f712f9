// Ranks that no MPI launcher started: their meeting place, their token, and the group of all of them.
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

// MASTER_ADDR and MASTER_PORT; empty unless both are set. If TORCHELASTIC_USE_AGENT_STORE says that torchrun's agent
// listens at that port itself, the ranks take the next one. Throws CommError.
std::optional<MeetingPlace> meeting_place();

// Set for rank 0 by a launcher that has opened its listening socket already, so that nobody else takes the port: the
// number of the descriptor. A descriptor that does not listen at MASTER_PORT is ignored.
inline constexpr const char* kListenVariable = "LTRAIN_LISTEN_FD";

// All ranks must call it. Throws CommError if there is no token, or if the ranks do not come together; at once where
// the name of the host has no address.
std::shared_ptr<GroupBackend> meet_without_mpi(const MeetingPlace& place, const LaunchInfo& info,
                                               const MeetingOptions& options);

// This host's name.
std::string host_name();
// Sets local_rank and local_size from the names of all ranks' hosts, by rank.
void learn_host_ranks(LaunchInfo& info, const std::vector<std::string>& hosts);

}  // namespace lt::comm
