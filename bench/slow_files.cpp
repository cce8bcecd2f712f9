// Measures how long steps wait for a loader whose files are on a slow file system. Steps are sleeps of a given length,
// so other work on the machine matters little. The file system is this program's own pread(2): every read takes a
// latency, and the bytes of all reads share a bandwidth.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "libtrain/data/data.h"
#include "libtrain/error.h"

namespace {

using Clock = std::chrono::steady_clock;
using Ms = std::chrono::duration<double, std::milli>;

constexpr Ms kLatency{20};
constexpr double kBytesPerMs = 100e3;  // 100 MB/s
constexpr lt::BatchShape kShape{.micro_batch = 8, .seq = 1024};
constexpr int kSteps = 40, kStepsInPlace = 10;

// The bytes of reads pass one after the other, their latencies overlap.
void wait_for_link(ssize_t bytes) {
  static std::mutex mutex;
  static Clock::time_point free_at{};
  Clock::time_point done;
  {
    const std::lock_guard lock(mutex);
    free_at = std::max(free_at, Clock::now()) +
              std::chrono::duration_cast<Clock::duration>(Ms(static_cast<double>(bytes) / kBytesPerMs));
    done = free_at + std::chrono::duration_cast<Clock::duration>(kLatency);
  }
  std::this_thread::sleep_until(done);
}

// The mean milliseconds of a step: `get` the batch, then work for `step`.
template <class Get>
double ms_of_step(int steps, Ms step, const Get& get) {
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < steps; ++i) {
    get(i);
    std::this_thread::sleep_for(step);
  }
  return Ms(Clock::now() - begin).count() / steps;
}

void measure(const std::string& path) {
  std::vector<std::uint32_t> tokens(2'000'000);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint32_t>(i * 7919 % 50000);
  lt::write_token_file(path, tokens);
  std::printf("%lld samples of %lld tokens a step, %g ms a read, %g MB/s\n", static_cast<long long>(kShape.samples()),
              static_cast<long long>(kShape.seq), kLatency.count(), kBytesPerMs / 1e3);
  std::printf("%12s %24s %24s\n", "work, ms", "read in place, ms a step", "read ahead, ms a step");
  for (const double work : {25.0, 50.0, 100.0, 200.0}) {
    lt::TokenLoader loader({path}, kShape);
    std::vector<std::int32_t> sample(static_cast<std::size_t>(kShape.seq + 1));
    const double in_place = ms_of_step(kStepsInPlace, Ms(work), [&](int step) {
      for (lt::Size row = 0; row < kShape.samples(); ++row) {
        loader.read_sample(step * kShape.samples() + row, sample.data());
      }
    });
    loader.next();  // starts the threads
    const double ahead = ms_of_step(kSteps, Ms(work), [&](int) { loader.next(); });
    std::printf("%12.0f %24.1f %24.1f\n", work, in_place, ahead);
    std::fflush(stdout);
  }
}

}  // namespace

// Takes the place of the C library's in this program.
extern "C" ssize_t pread(int file, void* to, std::size_t bytes, off_t offset) {
  const ssize_t got = ::syscall(SYS_pread64, file, to, bytes, offset);
  wait_for_link(got);
  return got;
}

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "libtrain-slow-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return std::perror(folder.c_str()), 1;
  int code = 0;
  try {
    measure(folder + "/tokens.bin");
  } catch (const lt::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    code = 1;
  }
  std::filesystem::remove_all(folder);
  return code;
}
