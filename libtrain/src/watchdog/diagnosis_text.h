// Formats the parts of a verdict's message.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "watchdog/waits.h"

namespace lt::watchdog {

// "rank 2 (host b, pid 123)", "ranks 4-7 (host b)", "ranks 0, 1, 3".
std::string text_of(const Peers& peers);
// "rank 2", "ranks 0-2, 5".
std::string ranks_text(const Peers& peers);
// `reduce_scatter "blocks.3 gradients" (#812 of group reduce, 24 MiB)`
std::string text_of(const GroupStatus& group, const Call& call);
// " at step 41, in forward". If ranks that wait for `peer` report a later step, uses that one. Otherwise, if
// `newest_step` (of any rank) is later: " at about step 41".
std::string place_of(const Peer& peer, const std::vector<IncompleteCall>& incomplete, std::int64_t newest_step = 0);
// `; ranks 0, 1, 3 wait for it in ...`, for the two calls in which most ranks wait for `awaited`; empty if no rank
// waits.
std::string waiters_of(const Peers& awaited, const std::vector<IncompleteCall>& incomplete);

}  // namespace lt::watchdog
