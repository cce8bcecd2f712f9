// The progress of prepare: amount, rate, share and remaining time.
#include "launch/progress_line.h"

#include "test_main/catch.h"

using lt::PrepareProgress;
using lt::launch::progress_text;

TEST_CASE("progress: the remaining time follows from what this process has read", "[launch]") {
  const PrepareProgress first{.text_bytes = 0, .stored_bytes = 400'000'000, .stored_in_all = 1'000'000'000};
  const PrepareProgress now{.text_bytes = 300'000'000, .stored_bytes = 500'000'000, .stored_in_all = 1'000'000'000};
  CHECK(progress_text(first, now, 10) == "300MB of text, 30MB/s, 50%, 50s left");
  const PrepareProgress nearly{
      .text_bytes = 1'250'000'000, .stored_bytes = 999'000'000, .stored_in_all = 1'000'000'000};
  CHECK(progress_text(first, nearly, 100) == "1.25GB of text, 12.5MB/s, 99%, 0s left");
}

TEST_CASE("progress: of standard input the end is unknown", "[launch]") {
  const PrepareProgress now{.text_bytes = 5'000, .stored_bytes = 5'000, .stored_in_all = std::nullopt};
  CHECK(progress_text({}, now, 2) == "5kB of text, 2.5kB/s");
}
