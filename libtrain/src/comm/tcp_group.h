// Ranks that meet over TCP, without MPI: for small data and, with NCCL, for tensors on CUDA devices. Tensors on the CPU
// it does not take.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "comm/backend.h"

namespace lt {

// Rank 0 listens at `port`, the others connect to it at `host`. All ranks call it; throws CommError where they do not
// come together within `patience`.
std::shared_ptr<GroupBackend> make_tcp_world_backend(const std::string& host, int port, int rank, int size,
                                                     std::chrono::seconds patience = std::chrono::seconds(120));

}  // namespace lt
