// Errors carry the exit code, the component and the hint that a program prints.
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;

TEST_CASE("each error leads to its exit code", "[device]") {
  CHECK(UsageError("config", "x").code() == ExitCode::usage);
  CHECK(DataError("data", "x").code() == ExitCode::data);
  CHECK(CommError("x").code() == ExitCode::communication);
  CHECK(BrokenCommError("x").code() == ExitCode::restart);
  CHECK(NonFiniteError("x").code() == ExitCode::non_finite);
  CHECK(InternalError("tensor", "x").code() == ExitCode::internal);
  CHECK(static_cast<int>(ExitCode::ok) == 0);
  CHECK(static_cast<int>(ExitCode::internal) == 1);
  CHECK(static_cast<int>(ExitCode::usage) == 2);
  CHECK(static_cast<int>(ExitCode::data) == 3);
  CHECK(static_cast<int>(ExitCode::communication) == 4);
  CHECK(static_cast<int>(ExitCode::non_finite) == 5);
  CHECK(static_cast<int>(ExitCode::restart) == 75);
}

TEST_CASE("an error keeps component, message and hint, and the rank where it arose", "[device]") {
  DataError error("checkpoint", "rank-00000.h5: expected 8 bytes, got 7", "run `ltrain checkpoint verify`");
  CHECK(error.component() == "checkpoint");
  CHECK(std::string(error.what()) == "rank-00000.h5: expected 8 bytes, got 7");
  CHECK(error.hint() == "run `ltrain checkpoint verify`");
  CHECK_FALSE(error.shared());
  CHECK(error.rank() == -1);
  error.set_shared(3);
  CHECK(error.shared());
  CHECK(error.rank() == 3);
  CHECK(CommError("x").component() == "comm");
  CHECK(CommError("x").hint().empty());
}
