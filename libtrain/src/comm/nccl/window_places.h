// Finds the addresses at which NCCL maps a window.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace lt::comm {

// The addresses at which the current device sees the memory of ranks 0 to `ranks` - 1 in a symmetric window. All ranks
// of its communicator must be on one host.
std::vector<std::byte*> places_of_window(ncclWindow_t window, int ranks);

}  // namespace lt::comm
