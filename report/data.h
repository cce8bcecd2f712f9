// The data of a run's folder, as the report reads it. Fields missing in a line are NaN (numbers) or empty, so a report
// of an old or foreign run still shows what the run has.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lt::report {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// One row of `comm`.
struct CommRow {
  std::string op;
  double bytes = 0, calls = 0, busy_ms = 0, exposed_ms = 0, busbw_gbps = kMissing;
};

// One entry of `ranks.parts_ms`: the minimum, mean and maximum over ranks, and the rank that has the maximum.
struct ActivityOverRanks {
  std::string name;
  double min = kMissing, mean = kMissing, max = kMissing, rank = kMissing;
};

struct StepRow {
  // loss: kMissing also where no target counted.
  double step = kMissing, tokens = kMissing, loss = kMissing, grad_norm = kMissing, lr = kMissing, step_ms = kMissing,
         tokens_per_s = kMissing, tokens_per_s_per_rank = kMissing, mfu = kMissing, memory_peak_bytes = kMissing,
         memory_outside_bytes = kMissing;
  std::string loss_hex = {};                                      // the bits of the loss; empty if the row has none
  std::vector<std::pair<std::string, double>> breakdown_ms = {};  // in the order of the file
  std::vector<CommRow> comm = {};
  // Statistics over ranks. own: without the time spent waiting for other ranks.
  double slowest = kMissing, step_ms_min = kMissing, step_ms_mean = kMissing, step_ms_max = kMissing,
         own_ms_min = kMissing, own_ms_mean = kMissing, own_ms_max = kMissing;
  std::vector<double> own_ms = {};                           // by rank; empty if the row does not list them
  std::vector<ActivityOverRanks> breakdown_over_ranks = {};  // in the order of the file
  int start = 0;  // number of the preceding `start` event in the file; 0: none
};

// An event: its kind, its step (NaN if it has none), and every other scalar field as text.
struct Event {
  std::string kind;
  double step = kMissing, loss = kMissing, seconds = kMissing;
  std::size_t line = 0;  // line number in the file
  std::vector<std::pair<std::string, std::string>> fields = {};
};

// The field's text; "–" if the event has no field of that name.
std::string event_field(const Event& event, const std::string& name);
// Reasons of end_of(); the name of the signal follows the second.
inline constexpr const char* kNotFinite = "loss or gradient not finite";
inline constexpr std::string_view kSignal = "signal ";

// A `restart` event: the cause of the previous attempt's end, and its cost.
struct RestartRow {
  double attempt = kMissing, step = kMissing, lost_steps = kMissing, notice_s = kMissing, backoff_s = kMissing,
         start_s = kMissing, total_s = kMissing;
  std::string cause = {};
};

using Settings = std::map<std::string, std::string>;  // those of kSettings that are known

// A `start` event.
struct Start {
  int number = 0;  // from 1
  double step = kMissing, ranks = kMissing, predicted_peak_bytes = kMissing, flops_per_token = kMissing,
         parameters = kMissing;
  std::vector<std::pair<std::string, double>> ledger = {};  // bytes
  std::string model = {};                                   // as the program calls it
  Settings settings = {};
};

// Consecutive steps that ran with the same settings.
struct Segment {
  double first = kMissing, last = kMissing;
  Settings settings = {};
};

struct RunData {
  std::string directory, name;
  // Steps of one trajectory, without those that a later start superseded (docs/metrics.md).
  std::vector<StepRow> steps;        // ascending; of a repeated step the later line
  std::vector<Event> evals;          // likewise
  std::vector<Event> events;         // all others, in the order of the file
  std::vector<Start> starts;         // likewise
  std::vector<RestartRow> restarts;  // all of them: they belong to the run, not to a trajectory
  std::vector<Segment> segments;     // ascending; speed and memory describe the last one
  // Read from the last start that has steps, and its ledger.
  double ranks = kMissing, predicted_peak_bytes = kMissing, flops_per_token = kMissing, parameters = kMissing;
  std::string model;
  std::vector<std::pair<std::string, double>> ledger;            // bytes
  std::map<std::string, std::string> config;                     // "section.key" to TOML text
  std::vector<std::pair<std::string, std::string>> environment;  // env.json, nested names joined by dots
  std::vector<std::pair<std::string, std::string>> samples;      // file name and text, the last few
  std::string arena_svg;                                         // accepted by is_arena_svg(), or empty
  std::string id, begun_from;                                    // those of run.json; empty: none
  std::vector<std::pair<std::string, std::string>> copied_from;  // of run.json: ids and their checkpoint.dir
  double saved_step = kMissing;                                  // newest_on_disk()
  std::vector<std::string> unreadable;                           // names of files that exist and could not be used
  // When the record last changed and when it was read, in seconds of Unix time.
  double changed_at = kMissing, read_at = kMissing;
  bool torn = false;       // the last line has no newline, and was ignored
  std::string last_error;  // the error that ends log.txt; empty if a start or a step follows, or there is none
};

// Throws DataError, which names file and line, if metrics.jsonl is missing or a line with a newline is damaged.
RunData read_run(const std::string& directory);

// Why the last attempt ended: the reason of its `end` event, or kNotFinite. Empty if it has recorded no end.
std::string end_of(const RunData& run);

// The last step that is known to be done. Rows may be lost at the end of a record; the events `lost`, `checkpoint` and
// `end` then tell more.
double steps_done(const RunData& run);

// The steps that speed and memory are computed from: those of the last segment.
std::vector<const StepRow*> measured_steps(const RunData& run);
// The measured steps without warm-up. The first tenth is skipped, at least 1 and at most 10 steps, and the first step
// after each later start; fewer than 3 steps are all kept.
std::vector<const StepRow*> steady_steps(const RunData& run);
std::vector<const StepRow*> steady_steps(const RunData& run, const Segment& segment);
std::vector<const StepRow*> steps_of(const RunData& run, const Segment& segment);

// Ignores NaN values. Returns NaN if there are no others.
double mean(const std::vector<double>& values);
double median(std::vector<double> values);

template <class Member>
std::vector<double> column(const std::vector<const StepRow*>& steps, Member member) {
  std::vector<double> values;
  for (const StepRow* step : steps) values.push_back(step->*member);
  return values;
}

double number_of(const std::string& text);  // kMissing if the text is not a number
// An entry of the environment or the configuration as a number; kMissing if it does not exist or is not a number.
double environment_number(const RunData& run, const std::string& key);
std::string environment_text(const RunData& run, const std::string& key);  // "–" if it does not exist
// NaN if neither the run nor OMP_NUM_THREADS states it. Runs of earlier versions recorded only the variable.
double threads_per_rank(const RunData& run);
double config_number(const RunData& run, const std::string& key);
bool on_gpu(const RunData& run);
// The value without TOML's quotes; "–" if it is missing or empty.
std::string config_text(const RunData& run, const std::string& key);
// The program that plans the run by its configuration: ltrain, or the one with a row for the model. Empty for a model
// that no key describes.
std::string planning_program(const RunData& run);

// The time down at restarts, and that of the steps that were repeated, in seconds.
double seconds_of_restarts(const RunData& run);

// Whether the rows hold the activities of all ranks, not only those of rank 0.
bool has_breakdown_over_ranks(const std::vector<const StepRow*>& steps);
// Each activity's mean over the steps, in the order of first occurrence; over all ranks if the rows have them.
std::vector<std::pair<std::string, double>> mean_activities(const std::vector<const StepRow*>& steps);
// The same for minimum, mean and maximum. `rank` is the one that most often has the maximum.
std::vector<ActivityOverRanks> mean_breakdown_over_ranks(const std::vector<const StepRow*>& steps);
// Each rank that was ever the slowest, with the number of steps in which it was, most frequent first.
std::vector<std::pair<int, int>> slowest_ranks(const std::vector<const StepRow*>& steps);
// Each rank's mean own_ms over the steps; empty if the rows list different numbers of ranks.
std::vector<double> mean_own_ms(const std::vector<const StepRow*>& steps);
// The rank with the longest own time over all steps, its excess over the mean of the ranks, and the share of steps in
// which it was the slowest. If the rows do not list the ranks' times: the rank that was the slowest most often, with an
// excess only if that was in at least kMostly of the steps.
struct SlowestRank {
  int rank = -1;
  double excess_ms = 0, often = 0;
};
SlowestRank slowest_rank(const std::vector<const StepRow*>& steps);
inline constexpr double kMostly = 0.7;  // share of the steps in which the same rank is the slowest
// A rank counts as slow if its excess is 3 % of a step, and more than clocks and schedulers scatter, and if it is the
// slowest clearly more often than by chance: a few long steps alone raise a mean.
bool is_slow(const SlowestRank& rank, double step_ms, double ranks);
// Each op's bytes, calls and times per step. busbw_gbps is all bytes over all busy time.
std::vector<CommRow> mean_comm(const std::vector<const StepRow*>& steps);

}  // namespace lt::report
