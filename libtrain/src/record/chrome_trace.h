// Spans in the Trace Event Format of Chrome, which ui.perfetto.dev and chrome://tracing open: one process a rank, one
// thread a lane and one a CUDA stream.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libtrain/profile/timeline.h"
#include "profile/kernel_profile.h"

namespace lt {

// The events of one rank, as JSON objects separated by commas; lanes that no span used, and streams without work, are
// left out. A lane shows one span at a time, nested ones apart: where collectives overlap, each begins where the one
// before it ended, and says when it was posted. A span that is still open is drawn to the last time in `spans`, and its
// argument `open` says so. `kernels` are in the order in which they began, on the clock of the spans. Of those of a
// stream that overlap, each begins where the one before it ended, and says when it began.
std::string trace_events(int rank, const std::vector<Span>& spans, const std::vector<KernelRecord>& kernels = {});

// A whole file is the first, the events of one or more ranks with the second between them, and the third.
inline constexpr std::string_view kTraceBegin = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
inline constexpr std::string_view kTraceSeparator = ",\n";
inline constexpr std::string_view kTraceEnd = "\n]}\n";

}  // namespace lt
