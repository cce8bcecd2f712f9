// Spans in the Trace Event Format of Chrome, which ui.perfetto.dev and chrome://tracing open: one process per rank, one
// thread per lane and per CUDA stream.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libtrain/profile/timeline.h"
#include "profile/kernel_profile.h"

namespace lt {

// The events of one rank, as JSON objects separated by commas. Lanes without spans and streams without work are left
// out. A lane shows one span at a time, except nested ones: if collectives overlap, each is drawn from the end of the
// one before, and says when it was posted. A span that is still open is drawn to the last time in `spans` and has the
// argument `open`. `kernels` are in the order in which they began, on the clock of the spans. If those of one stream
// overlap, each is drawn from the end of the one before, and says when it began.
std::string trace_events(int rank, const std::vector<Span>& spans, const std::vector<KernelRecord>& kernels = {});

// A whole file is the first text, the events of one or more ranks with the second text between them, and the third
// text.
inline constexpr std::string_view kTraceBegin = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
inline constexpr std::string_view kTraceSeparator = ",\n";
inline constexpr std::string_view kTraceEnd = "\n]}\n";

}  // namespace lt
