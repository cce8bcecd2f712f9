// Which errors of NCCL a restart may cure. Needs no device.
#include "comm/nccl/nccl_error.h"

#include <string>

#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;

namespace {

ExitCode code_of(bool works, ncclResult_t result) {
  try {
    comm::check_nccl(works, result, "ncclSend", "/a/file.cpp", 7);
  } catch (const Error& error) {
    CHECK(std::string(error.what()).starts_with("ncclSend: "));
    return error.code();
  }
  return ExitCode::ok;
}

}  // namespace

TEST_CASE("nccl: a call that is wrong is a defect; other errors in a run may be cured by a restart", "[comm][nccl]") {
  for (const ncclResult_t result : {ncclSuccess, ncclInProgress}) CHECK(code_of(true, result) == ExitCode::ok);
  for (const ncclResult_t result : {ncclInvalidArgument, ncclInvalidUsage})
    CHECK(code_of(true, result) == ExitCode::internal);
  for (const ncclResult_t result : {ncclUnhandledCudaError, ncclSystemError, ncclInternalError, ncclRemoteError})
    CHECK(code_of(true, result) == ExitCode::restart);
  for (const ncclResult_t result : {ncclInvalidArgument, ncclInternalError})
    CHECK(code_of(false, result) == ExitCode::internal);
  for (const ncclResult_t result : {ncclUnhandledCudaError, ncclSystemError, ncclInvalidUsage})
    CHECK(code_of(false, result) == ExitCode::communication);
  CHECK(code_of(false, ncclRemoteError) == ExitCode::restart);
}
