// Spans and kernels in Chrome's Trace Event Format, which ui.perfetto.dev and chrome://tracing open. Each rank is a
// process; each lane and each CUDA stream is a thread of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libtrain/profile/timeline.h"
#include "profile/kernel_profile.h"

namespace lt::recorder {

// Returns the events of one rank, as JSON objects separated by commas. Omits lanes without spans and streams without
// work. A lane shows one span at a time, except for nested spans. If collectives overlap, each is drawn from the end of
// the previous one, and its argument `posted_us` is the time when it was posted. A span that is still open is drawn to
// the last time in `spans` and has the argument `open`. `kernels` must be in order of their begin, on the clock of the
// spans. If kernels of one stream overlap, each is drawn from the end of the previous one, and its argument `began_us`
// is its real begin.
std::string trace_events(int rank, const std::vector<Span>& spans,
                         const std::vector<profile::KernelRecord>& kernels = {});

// A whole file is kTraceBegin, the events of one or more ranks separated by kTraceSeparator, and kTraceEnd.
inline constexpr std::string_view kTraceBegin = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
inline constexpr std::string_view kTraceSeparator = ",\n";
inline constexpr std::string_view kTraceEnd = "\n]}\n";

}  // namespace lt::recorder
