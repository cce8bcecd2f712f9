// Spans in the Trace Event Format of Chrome, which ui.perfetto.dev and chrome://tracing open: one process a rank, one
// thread a lane.
#pragma once

#include <string>
#include <vector>

#include "libtrain/timeline.h"

namespace lt {

// The events of one rank, as JSON objects separated by commas; lanes that no span used are left out. A lane shows one
// span at a time, nested ones apart: of collectives that overlap, each begins where the one before it ended, and says
// when it was posted. A span that is still open is drawn to the last time in `spans`, and its argument `open` says so.
std::string trace_events(int rank, const std::vector<Span>& spans);

// The whole file from the events of one or more ranks.
std::string trace_document(const std::vector<std::string>& events_of_ranks);

}  // namespace lt
