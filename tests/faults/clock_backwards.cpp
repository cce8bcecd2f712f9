// For LD_PRELOAD: makes the wall clock run backwards and leaves the monotonic clock alone.
#include <dlfcn.h>
#include <sys/time.h>

#include <ctime>

namespace {

constexpr time_t kBegin = 2000000000;  // in 2033
constexpr long kNanoseconds = 1000000000;

int real_clock(clockid_t clock, timespec* time) {
  static const auto next = reinterpret_cast<int (*)(clockid_t, timespec*)>(dlsym(RTLD_NEXT, "clock_gettime"));
  return next(clock, time);
}

timespec backwards() {
  timespec since_boot{};
  real_clock(CLOCK_MONOTONIC, &since_boot);
  return {kBegin - since_boot.tv_sec - 1, kNanoseconds - 1 - since_boot.tv_nsec};
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return real_clock(clock, time);
  *time = backwards();
  return 0;
}

int gettimeofday(timeval* time, void*) noexcept {
  const timespec now = backwards();
  *time = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* also) noexcept {
  const time_t now = backwards().tv_sec;
  if (also != nullptr) *also = now;
  return now;
}

}  // extern "C"
