// Ranks that no launcher of MPI started: where they meet, by what token, and the group of all of them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "comm/backend.h"
#include "libtrain/comm/world.h"
#include "libtrain/error.h"

namespace lt {

struct MeetingPlace {
  std::string host;
  int port = 0;
};

// MASTER_ADDR and MASTER_PORT; nothing where they are not both set. torchrun's agent listens at that port itself and
// says so in TORCHELASTIC_USE_AGENT_STORE: the ranks then take the next one. Throws CommError.
std::optional<MeetingPlace> meeting_place();

// What kept this rank from the others, which may have met something else.
struct MeetingError : CommError {
  using CommError::CommError;
};

// All ranks call it. Throws CommError where there is no token, MeetingError where the ranks do not come together.
std::shared_ptr<GroupBackend> meet_without_mpi(const MeetingPlace& place, const LaunchInfo& info,
                                               const MeetingOptions& options);

}  // namespace lt
