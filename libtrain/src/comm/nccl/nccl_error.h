// LT_NCCL(expression): calls NCCL and throws with the expression, NCCL's text and the source location. Throws
// InternalError if the call itself is wrong, LostPeerError if a peer is gone, CommError otherwise. Unfinished work of a
// communicator (ncclInProgress) is not an error.
#pragma once

#include <nccl.h>

namespace lt::comm {

void check_nccl(ncclResult_t code, const char* expression, const char* file, int line);

}  // namespace lt::comm

#define LT_NCCL(expression) ::lt::comm::check_nccl((expression), #expression, __FILE__, __LINE__)
