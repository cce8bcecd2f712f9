// The segments of a run that was resumed with other ranks, another strategy or another batch. Invariant: speed and
// memory describe the last segment only, because a mean over several segments describes none of them. Losses cover the
// whole run.
#pragma once

#include <string>

#include "report/data.h"
#include "report/document.h"

namespace lt::report {

// A field of a `start` event that determines the speed of a step, and its name in a report.
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

// Derives the segments from rows and starts, and copies the facts of the last start that has steps.
void divide_into_segments(RunData& run);

bool has_segments(const RunData& run);           // true if there is more than one
std::string range_text(const Segment& segment);  // "201 to 250"
// The steps that the figures of speed and memory describe, as in range_text().
std::string measured_range(const RunData& run);
// The setting of the last segment, or else of config.toml; "–" if neither has it.
std::string measured_setting(const RunData& run, const char* field, const char* config_key);

// Says which steps speed and memory cover; empty for a single segment.
std::string segments_note(const RunData& run);
// The segments with their settings and speeds; no rows for a single segment.
Table segments_table(const RunData& run);

}  // namespace lt::report
