// The progress of long commands: amount, rate, share and remaining time.
#include "launch/progress_line.h"

#include "test_main/catch.h"

using lt::launch::Progress;
using lt::launch::progress_text;

TEST_CASE("progress: the remaining time follows from what this process has done", "[launch]") {
  const Progress first{.amount = 0, .done = 400'000'000, .total = 1'000'000'000};
  const Progress now{.amount = 300'000'000, .done = 500'000'000, .total = 1'000'000'000};
  CHECK(progress_text("B", " of text", first, now, 10) == "300MB of text, 30MB/s, 50%, 50s left");
  const Progress nearly{.amount = 1'250'000'000, .done = 999'000'000, .total = 1'000'000'000};
  CHECK(progress_text("B", " of text", first, nearly, 100) == "1.25GB of text, 12.5MB/s, 99%, 0s left");
}

TEST_CASE("progress: of standard input the end is unknown", "[launch]") {
  const Progress now{.amount = 5'000, .done = 5'000, .total = std::nullopt};
  CHECK(progress_text("B", " of text", {}, now, 2) == "5kB of text, 2.5kB/s");
}

TEST_CASE("progress: every unit", "[launch]") {
  const auto text = [](const char* unit, lt::Size done, lt::Size total, double seconds) {
    return progress_text(unit, "", {0, 0, total}, {done, done, total}, seconds);
  };
  CHECK(text("B", 2'000'000'000, 8'000'000'000, 4) == "2GB, 500MB/s, 25%, 12s left");
  CHECK(text(" tokens", 30'000, 120'000, 3) == "30k tokens, 10k tokens/s, 25%, 9s left");
  CHECK(text(" questions", 7, 21, 2) == "7 questions, 3.5 questions/s, 33%, 4s left");
  CHECK(text(" matmuls", 3, 12, 30) == "3 matmuls, 0.1 matmuls/s, 25%, 1m30s left");
  CHECK(text(" matmuls", 0, 12, 30) == "0 matmuls, 0 matmuls/s");  // nothing to tell the remaining time from
}
