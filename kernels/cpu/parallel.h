// Loops over an OpenMP team. Each body is compiled once per x86-64 level, and the level is selected at run time, so one
// binary built without -march flags uses the full vector width of any processor. A build with LIBTRAIN_NATIVE has the
// level of the building machine alone, LIBTRAIN_CPU_LEVEL.
//
//   parallel_for(n, grain, [=](Size begin, Size end) LT_VECTOR_BODY {
//     for (Size i = begin; i < end; ++i) y[i] = a * x[i];
//   });
//
// The body must be a lambda with LT_VECTOR_BODY: it is inlined into one function per level. A function that the body
// calls in its inner loop needs LT_INLINE (or must be trivially inlined); otherwise it runs at the baseline level.
// Capture by value, so that the compiler knows that the pointers do not change. `#pragma omp simd` is fine inside.
// A body with a third parameter receives a VectorBytes<n>: the register width of the level, known at compile time.
#pragma once

#include <omp.h>

#include <cstdlib>
#include <string_view>
#include <type_traits>

#include "libtrain/dtype.h"

#define LT_VECTOR_BODY __attribute__((always_inline))
#define LT_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define LT_TARGET_V4 "arch=x86-64-v4"
#else
#define LT_TARGET_V4 "arch=x86-64-v4,prefer-vector-width=512"
#endif

namespace lt::kernels {

enum class CpuLevel { v1, v3, v4 };  // x86-64-v1: SSE2, v3: AVX2 and FMA, v4: AVX-512; v1 elsewhere

template <int kBytes>
using VectorBytes = std::integral_constant<int, kBytes>;

namespace detail {

// The highest level that the processor has.
inline CpuLevel processor_level() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
      !__builtin_cpu_supports("bmi2")) {
    return CpuLevel::v1;
  }
  const bool has_v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  return has_v4 ? CpuLevel::v4 : CpuLevel::v3;
#else
  return CpuLevel::v1;
#endif
}

inline CpuLevel level_by_environment() {
  const char* variable = std::getenv("LIBTRAIN_CPU");
  const std::string_view limit = variable ? variable : "";
  const CpuLevel most = limit == "v1" ? CpuLevel::v1 : limit == "v3" ? CpuLevel::v3 : CpuLevel::v4;
  const CpuLevel level = processor_level();
  return level < most ? level : most;
}

// The local copy of the body stays in registers: no store in the body can change its captures.
template <int kBytes, class F>
LT_INLINE void call(const F& body, Size begin, Size end) {
  const F local = body;
  if constexpr (std::is_invocable_v<const F&, Size, Size, VectorBytes<kBytes>>) {
    local(begin, end, VectorBytes<kBytes>{});
  } else {
    local(begin, end);
  }
}

template <class F>
[[gnu::noinline]] void run_v1(const F& body, Size begin, Size end) {
  call<16>(body, begin, end);
}

#if defined(__x86_64__)
template <class F>
__attribute__((target("arch=x86-64-v3"), noinline)) void run_v3(const F& body, Size begin, Size end) {
  call<32>(body, begin, end);
}

template <class F>
__attribute__((target(LT_TARGET_V4), noinline)) void run_v4(const F& body, Size begin, Size end) {
  call<64>(body, begin, end);
}
#endif

}  // namespace detail

// The level that bodies run at. The environment variable LIBTRAIN_CPU = v1 or v3 lowers it, but not in a build with
// LIBTRAIN_NATIVE.
inline CpuLevel cpu_level() {
  static const CpuLevel level = detail::level_by_environment();
  return level;
}
#if defined(LIBTRAIN_CPU_LEVEL)
inline constexpr CpuLevel kOnlyLevel = LIBTRAIN_CPU_LEVEL == 4 ? CpuLevel::v4 : CpuLevel::v3;
#endif

// Runs body(begin, end) on the calling thread, compiled for the processor.
template <class F>
void run_vectorised(Size begin, Size end, const F& body) {
#if defined(LIBTRAIN_CPU_LEVEL)
  if constexpr (kOnlyLevel == CpuLevel::v4) {
    detail::run_v4(body, begin, end);
  } else {
    detail::run_v3(body, begin, end);
  }
#elif defined(__x86_64__)
  switch (cpu_level()) {
    case CpuLevel::v4: return detail::run_v4(body, begin, end);
#if !defined(__SANITIZE_ADDRESS__)  // the sanitizer build has two levels and compiles in two thirds of the time
    case CpuLevel::v3: return detail::run_v3(body, begin, end);
#endif
    default: detail::run_v1(body, begin, end);
  }
#else
  detail::run_v1(body, begin, end);
#endif
}

// Returns the number of ranges into which parallel_for(n, grain, ...) splits [0, n).
inline Size parallel_ranges(Size n, Size grain) {
  if (n <= grain || omp_in_parallel()) return n > 0 ? 1 : 0;
  const Size threads = omp_get_max_threads(), most = grain > 0 ? (n + grain - 1) / grain : n;
  return threads < most ? threads : most;
}

// Splits [0, n) into contiguous ranges, one per thread and none much shorter than `grain`, and runs body(begin, end)
// once for each. The split depends only on n, grain and the number of threads. Inside a parallel region it runs
// serially. The body must not throw.
template <class F>
void parallel_for(Size n, Size grain, const F& body) {
  const Size ranges = parallel_ranges(n, grain);
  if (ranges <= 1) {
    if (n > 0) run_vectorised(0, n, body);
    return;
  }
  // The whole team starts even for fewer ranges: libgomp ends the threads that a smaller team leaves out.
#pragma omp parallel
  for (Size r = omp_get_thread_num(); r < ranges; r += omp_get_num_threads()) {
    run_vectorised(n / ranges * r + (n % ranges < r ? n % ranges : r),
                   n / ranges * (r + 1) + (n % ranges < r + 1 ? n % ranges : r + 1), body);
  }
}

// Runs body(begin, end) for items of unequal cost: each thread takes the next item when it finishes one. Items must not
// share outputs, so that the result does not depend on the schedule. The body must not throw.
template <class F>
void parallel_items(Size n, const F& body) {
  if (n <= 1 || omp_in_parallel() || omp_get_max_threads() == 1) {
    if (n > 0) run_vectorised(0, n, body);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1)
  for (Size i = 0; i < n; ++i) run_vectorised(i, i + 1, body);
}

}  // namespace lt::kernels
