// The segments of a run that continued with other ranks, another strategy or another batch. Invariant: speed and memory
// describe only the last segment, since a mean over several would be true of none; losses cover the whole run.
#pragma once

#include <string>

#include "report/data.h"
#include "report/document.h"

namespace lt::report {

// Names the fields of a `start` event that determine the speed of a step, in a report's words.
struct Setting {
  const char* field;
  const char* words;
  bool always;  // shown even if it is the same in all segments
};
inline constexpr Setting kSettings[] = {
    {"ranks", "ranks", true},
    {"strategy", "strategy", true},
    {"shard_size", "shard size", false},
    {"recompute", "recompute", false},
    {"recompute_every", "every n-th", false},
    {"dtype", "dtype", false},
    {"reduce_dtype", "reduced in", false},
    {"tokens_per_step", "tokens / step", false},
    {"micro_batch", "micro-batch", false},
    {"accum", "accum", false},
    {"seq", "sequence", false},
};

// Derives the segments from rows and starts, and the facts about the last one.
void divide_into_segments(RunData& run);

bool has_segments(const RunData& run);           // more than one
std::string range_text(const Segment& segment);  // "201 to 250"
// The steps behind the figures of speed and memory, as in range_text().
std::string measured_range(const RunData& run);
// A setting of that segment, or of config.toml; "–" if neither has it.
std::string measured_setting(const RunData& run, const char* field, const char* config_key);

// Says that there are several segments, and lists each with its settings and speed; nothing for a single one.
void add_segments(Document& document, const RunData& run);

}  // namespace lt::report
