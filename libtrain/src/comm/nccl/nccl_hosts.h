// Where the ranks of an NCCL group are: on which hosts, each with a device of its own.
#pragma once

#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/device/device.h"

namespace lt::comm {

// The host of each of the group's ranks, as a number: two ranks have the same if NCCL takes them for ranks of one host.
// Call it on all ranks.
std::vector<int> hosts_of(const Group& group);

// Throws UsageError if two ranks of a host have the same device. NCCL reports that only as an invalid argument. Call it
// on all ranks.
void require_own_devices(const Group& group, Device device);

}  // namespace lt::comm
