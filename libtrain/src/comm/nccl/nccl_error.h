// LT_NCCL(expression): calls NCCL on a communicator that works, and throws with the expression, NCCL's text and the
// source location: InternalError if the call itself is wrong, BrokenCommError otherwise. LT_NCCL_SET_UP(expression):
// the same while a communicator or a window is set up; throws InternalError if the call itself is wrong,
// BrokenCommError if a peer is gone, CommError otherwise. Unfinished work of a communicator (ncclInProgress) is not an
// error.
#pragma once

#include <nccl.h>

namespace lt::comm {

// `works`: the communicator has been set up. `expression`: the call that returned `code`.
void check_nccl(bool works, ncclResult_t code, const char* expression, const char* file, int line);

}  // namespace lt::comm

#define LT_NCCL(expression) ::lt::comm::check_nccl(true, (expression), #expression, __FILE__, __LINE__)
#define LT_NCCL_SET_UP(expression) ::lt::comm::check_nccl(false, (expression), #expression, __FILE__, __LINE__)
