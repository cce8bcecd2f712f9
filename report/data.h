// What a run left in its folder, as numbers: the reading side of metrics.jsonl.
// Fields that a line lacks are NaN (numbers) or empty, so a report of an old or foreign run still shows what there is.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lt::report {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// One row of `comm`.
struct CommRow {
  std::string op;
  double bytes = 0, calls = 0, busy_ms = 0, exposed_ms = 0, busbw_gbps = kMissing;
};

// One entry of `ranks.parts_ms`: least, mean and greatest time of a rank, and the rank of the greatest.
struct ActivityOverRanks {
  std::string name;
  double min = kMissing, mean = kMissing, max = kMissing, rank = kMissing;
};

struct StepRow {
  double step = kMissing, tokens = kMissing, loss = kMissing, grad_norm = kMissing, lr = kMissing, step_ms = kMissing,
         tokens_per_s = kMissing, tokens_per_s_per_rank = kMissing, mfu = kMissing, memory_peak_bytes = kMissing,
         memory_outside_bytes = kMissing;
  std::vector<std::pair<std::string, double>> breakdown_ms = {};  // in the order of the file
  std::vector<CommRow> comm = {};
  // Over ranks; own: without waiting for others.
  double slowest = kMissing, step_ms_min = kMissing, step_ms_mean = kMissing, step_ms_max = kMissing,
         own_ms_min = kMissing, own_ms_mean = kMissing, own_ms_max = kMissing;
  std::vector<double> own_ms = {};                           // by rank; empty where the row does not list them
  std::vector<ActivityOverRanks> breakdown_over_ranks = {};  // in the order of the file
  int start = 0;  // number of the `start` event before it in the file; 0: none
};

// An event: its kind, the step it stands at (NaN without one), and every other scalar field as text.
struct Event {
  std::string kind;
  double step = kMissing, loss = kMissing, seconds = kMissing;
  std::size_t line = 0;  // of the file
  std::vector<std::pair<std::string, std::string>> fields = {};
};

// A field of an event; "–" where it has none of that name.
std::string event_field(const Event& event, const std::string& name);

// A `restart` event: what ended the attempt before, and what that cost.
struct RestartRow {
  double attempt = kMissing, step = kMissing, lost_steps = kMissing, notice_s = kMissing, backoff_s = kMissing,
         start_s = kMissing, total_s = kMissing;
  std::string cause = {};
};

using Settings = std::map<std::string, std::string>;  // of those of kSettings that are known

// A `start` event.
struct Start {
  int number = 0;  // from 1
  double step = kMissing, ranks = kMissing, predicted_peak_bytes = kMissing, flops_per_token = kMissing,
         parameters = kMissing;
  std::vector<std::pair<std::string, double>> ledger = {};  // bytes
  Settings settings = {};
};

// Steps one after another that ran with the same settings.
struct Segment {
  double first = kMissing, last = kMissing;
  Settings settings = {};
};

struct RunData {
  std::string directory, name;
  // Of one trajectory: without what a later start superseded (docs/metrics.md).
  std::vector<StepRow> steps;        // ascending; of equal steps the later line
  std::vector<Event> evals;          // likewise
  std::vector<Event> events;         // all others, in the order of the file
  std::vector<Start> starts;         // likewise
  std::vector<RestartRow> restarts;  // all of them: they are of the run, not of a trajectory
  std::vector<Segment> segments;     // ascending; what is said of speed and memory is of the last
  // Of the last start that has steps, with its ledger.
  double ranks = kMissing, predicted_peak_bytes = kMissing, flops_per_token = kMissing, parameters = kMissing;
  std::vector<std::pair<std::string, double>> ledger;            // bytes
  std::map<std::string, std::string> config;                     // "section.key" to TOML text
  std::vector<std::pair<std::string, std::string>> environment;  // env.json, nested names joined by dots
  std::vector<std::pair<std::string, std::string>> samples;      // file name and text, the last few
  std::string arena_svg;                                         // what is_arena_svg() accepts, or empty
  std::vector<std::string> unreadable;                           // names of files that are there, but damaged
  bool torn = false;                                             // the last line was cut off
};

// Throws DataError naming file and line for a metrics.jsonl that is missing or damaged before its last line.
RunData read_run(const std::string& directory);

// The steps that speed and memory are from: those of the last segment.
std::vector<const StepRow*> measured_steps(const RunData& run);
// Without the first ones (a tenth, at least one, at most ten), which warm up; all where there are fewer than three.
std::vector<const StepRow*> steady_steps(const RunData& run);
std::vector<const StepRow*> steady_steps(const RunData& run, const Segment& segment);
std::vector<const StepRow*> steps_of(const RunData& run, const Segment& segment);

// NaN values are left out; NaN where none is left.
double mean(const std::vector<double>& values);
double median(std::vector<double> values);

template <class Member>
std::vector<double> column(const std::vector<const StepRow*>& steps, Member member) {
  std::vector<double> values;
  for (const StepRow* step : steps) values.push_back(step->*member);
  return values;
}

double number_of(const std::string& text);  // kMissing where it is none
// Of an environment's or configuration's entry; kMissing where it is missing or no number.
double environment_number(const RunData& run, const std::string& key);
// NaN where neither the run nor OMP_NUM_THREADS said it; in runs of earlier versions the variable alone did.
double threads_per_rank(const RunData& run);
double config_number(const RunData& run, const std::string& key);
bool on_gpu(const RunData& run);
// Without the quotes of TOML; "–" where it is missing or empty.
std::string config_text(const RunData& run, const std::string& key);

// Whether the rows have the activities of all ranks; else they have those of rank 0.
bool has_breakdown_over_ranks(const std::vector<const StepRow*>& steps);
// Mean over the steps for each activity, in the order in which they first occur; over ranks where the rows have them.
std::vector<std::pair<std::string, double>> mean_activities(const std::vector<const StepRow*>& steps);
// The same of least, mean and greatest; `rank` is the one that is greatest most often.
std::vector<ActivityOverRanks> mean_breakdown_over_ranks(const std::vector<const StepRow*>& steps);
// Ranks by how many of the steps they were the slowest of, most often first.
std::vector<std::pair<int, int>> slowest_ranks(const std::vector<const StepRow*>& steps);
// Each rank's own_ms, mean over the steps; empty where a row does not list as many as the others.
std::vector<double> mean_own_ms(const std::vector<const StepRow*>& steps);
// The rank that is longest busy itself over all steps: how much longer than the mean of the ranks, and the share of
// steps in which it was the slowest. Rows that do not list the ranks' times name it where it is the slowest in 70 % of
// them.
struct SlowestRank {
  int rank = -1;
  double excess_ms = 0, often = 0;
};
SlowestRank slowest_rank(const std::vector<const StepRow*>& steps);
inline constexpr double kSlow = 0.03;  // of a step: from this excess on a rank is called slow
// Bytes, calls and times a step for each op; busbw_gbps is of all bytes over all busy time.
std::vector<CommRow> mean_comm(const std::vector<const StepRow*>& steps);

}  // namespace lt::report
