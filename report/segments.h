// The segments of a run that went on with other ranks, another strategy or another batch. Invariant: what is said of
// speed and memory is of the last segment alone, since a mean over several is true of none; losses are of the whole
// run.
#pragma once

#include <string>

#include "report/data.h"
#include "report/document.h"

namespace lt::report {

// What the fields of a `start` event that decide the speed of a step are called, in a report's words.
struct Setting {
  const char* field;
  const char* words;
  bool always;  // shown also where it is the same in all segments
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

// From rows and starts: the segments, and what is known of the last of them.
void divide_into_segments(RunData& run);

bool has_segments(const RunData& run);           // more than one
std::string range_text(const Segment& segment);  // "201 to 250"
// The steps of the segment that figures of speed and memory are from, as range_text() has them.
std::string measured_range(const RunData& run);
// A setting of that segment, else of config.toml; "–" where neither says.
std::string measured_setting(const RunData& run, const char* field, const char* config_key);

// That there are several, and each with its settings and speed; nothing where there is one.
void add_segments(Document& document, const RunData& run);

}  // namespace lt::report
