// Finds the hosts of an NCCL group's ranks, and checks that each rank has its own device.
#pragma once

#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/device/device.h"

namespace lt::comm {

// Returns the number of each rank's host. Two ranks have the same number if NCCL treats them as one host's. All ranks
// must call it.
std::vector<int> hosts_of(const Group& group);

// Throws UsageError if two ranks of a host have the same device, which NCCL reports only as an invalid argument. All
// ranks must call it.
void require_own_devices(const Group& group, Device device);

}  // namespace lt::comm
