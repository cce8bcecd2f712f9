// The data of a run's folder, as the report reads it. A field that a file lacks is NaN (numbers) or empty (text), so
// the report of an old run, or of another program's run, still shows the data that exists.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lt::report {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// One entry of `comm`: all calls of one collective operation in a step.
struct CommRow {
  std::string op;
  double bytes = 0, calls = 0, busy_ms = 0, exposed_ms = 0, busbw_gbps = kMissing;
};

// One entry of `ranks.parts_ms`: an activity's minimum, mean and maximum over ranks in milliseconds, and the rank that
// has the maximum.
struct ActivityOverRanks {
  std::string name;
  double min = kMissing, mean = kMissing, max = kMissing, rank = kMissing;
};

struct StepRow {
  // loss is kMissing also if all targets of the step were ignored.
  double step = kMissing, tokens = kMissing, loss = kMissing, grad_norm = kMissing, lr = kMissing, step_ms = kMissing,
         tokens_per_s = kMissing, tokens_per_s_per_rank = kMissing, mfu = kMissing, memory_peak_bytes = kMissing,
         memory_outside_bytes = kMissing;
  std::string loss_hex = {};                                      // the bits of the loss; empty if the row has none
  std::vector<std::pair<std::string, double>> breakdown_ms = {};  // in the order of the file
  std::vector<CommRow> comm = {};
  // Statistics over ranks. slowest is a rank. own_ms is a step's time without waits for other ranks.
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
// Reasons that end_of() returns. The name of the signal follows kSignal.
inline constexpr const char* kNotFinite = "loss or gradient not finite";
inline constexpr std::string_view kSignal = "signal ";

// A `restart` event: the cause of the previous attempt's end, and its cost.
struct RestartRow {
  double attempt = kMissing, step = kMissing, lost_steps = kMissing, notice_s = kMissing, backoff_s = kMissing,
         start_s = kMissing, total_s = kMissing;
  std::string cause = {};
};

using Settings = std::map<std::string, std::string>;  // by field of kSettings; unknown settings are absent

// A `start` event.
struct Start {
  int number = 0;  // from 1
  double step = kMissing, ranks = kMissing, predicted_peak_bytes = kMissing, flops_per_token = kMissing,
         parameters = kMissing;
  std::vector<std::pair<std::string, double>> ledger = {};  // owner and its bytes
  std::string model = {};                                   // the program's name for the model
  Settings settings = {};
};

// Consecutive steps that ran with the same settings.
struct Segment {
  double first = kMissing, last = kMissing;
  Settings settings = {};
};

struct RunData {
  std::string directory, name;
  // One trajectory, without the steps that a later start superseded (docs/reference/metrics.md).
  std::vector<StepRow> steps;        // ascending; for a repeated step, the later line
  std::vector<Event> evals;          // ascending; for a repeated step, the later line
  std::vector<Event> events;         // all other events, in file order
  std::vector<Start> starts;         // in file order
  std::vector<RestartRow> restarts;  // all restarts of the run, also before superseded steps
  std::vector<Segment> segments;     // ascending; speed and memory describe the last one
  // From the last start that has steps.
  double ranks = kMissing, predicted_peak_bytes = kMissing, flops_per_token = kMissing, parameters = kMissing;
  std::string model;
  std::vector<std::pair<std::string, double>> ledger;            // owner and its bytes
  std::map<std::string, std::string> config;                     // "section.key" to TOML text
  std::vector<std::pair<std::string, std::string>> environment;  // env.json, nested names joined by dots
  std::vector<std::pair<std::string, std::string>> samples;      // file name and text, the last few
  std::string arena_svg;                                         // accepted by is_arena_svg(), or empty
  std::string id, begun_from;                                    // from run.json; empty if absent
  std::vector<std::pair<std::string, std::string>> copied_from;  // from run.json: ids and their checkpoint.dir
  double saved_step = kMissing;                                  // newest_on_disk()
  std::vector<std::string> unreadable;                           // names of files that exist and could not be used
  // Last change of metrics.jsonl, and when it was read; seconds of Unix time.
  double changed_at = kMissing, read_at = kMissing;
  bool torn = false;       // the last line has no newline, and was ignored
  std::string last_error;  // last error line of log.txt; empty if there is none, or if a start or a step follows it
};

// Reads the folder of a run, given as for run_folder(). Throws DataError, which names file and line, if metrics.jsonl
// is missing or one of its complete lines is damaged.
RunData read_run(const std::string& directory);

// Returns why the last attempt ended: the reason of its `end` event, or kNotFinite. Empty if it recorded no end.
std::string end_of(const RunData& run);

// Returns the last step that is known to be complete. Reads the events `lost`, `checkpoint` and `end` too, because the
// last rows of a record may be lost.
double steps_done(const RunData& run);

// The steps of the last segment, from which speed and memory are computed.
std::vector<const StepRow*> measured_steps(const RunData& run);
// The measured steps without warm-up. Skips the first tenth, at least 1 and at most 10 steps, and the first step after
// each later start. Keeps all steps if there are fewer than 3.
std::vector<const StepRow*> steady_steps(const RunData& run);
std::vector<const StepRow*> steady_steps(const RunData& run, const Segment& segment);
std::vector<const StepRow*> steps_of(const RunData& run, const Segment& segment);

// Both ignore NaN values, and return NaN if no value is left.
double mean(const std::vector<double>& values);
double median(std::vector<double> values);

template <class Member>
std::vector<double> column(const std::vector<const StepRow*>& steps, Member member) {
  std::vector<double> values;
  for (const StepRow* step : steps) values.push_back(step->*member);
  return values;
}

double number_of(const std::string& text);  // kMissing if the text is not a number
// An entry of env.json as a number; kMissing if it does not exist or is not a number. config_number() is the same for
// config.toml.
double environment_number(const RunData& run, const std::string& key);
std::string environment_text(const RunData& run, const std::string& key);  // "–" if it does not exist
// NaN if the run does not state it.
double threads_per_rank(const RunData& run);
double config_number(const RunData& run, const std::string& key);
bool on_gpu(const RunData& run);
// The value without TOML's quotes; "–" if it is missing or empty.
std::string config_text(const RunData& run, const std::string& key);
// The program in the run's command line; empty if the record does not have it.
std::string program_of(const RunData& run);
// The program whose `plan` command can plan the run: ltrain, or the program that defines the model. Empty if the
// configuration does not describe the model.
std::string planning_program(const RunData& run);

// Seconds lost by restarts: the time without a running attempt, and the time of repeated steps.
double seconds_of_restarts(const RunData& run);

// True if the rows hold the activities of all ranks, not only of rank 0.
bool has_breakdown_over_ranks(const std::vector<const StepRow*>& steps);
// Each activity's mean milliseconds per step, in the order of first occurrence: over all ranks if the rows have them,
// otherwise of rank 0.
std::vector<std::pair<std::string, double>> mean_activities(const std::vector<const StepRow*>& steps);
// Each activity's minimum, mean and maximum over ranks, averaged over the steps. `rank` is the rank that most often has
// the maximum.
std::vector<ActivityOverRanks> mean_breakdown_over_ranks(const std::vector<const StepRow*>& steps);
// Each rank that was the slowest in a step, with the number of such steps, most frequent first.
std::vector<std::pair<int, int>> slowest_ranks(const std::vector<const StepRow*>& steps);
// Each rank's mean own_ms over the steps; empty if the rows list different numbers of ranks.
std::vector<double> mean_own_ms(const std::vector<const StepRow*>& steps);
// The rank with the largest mean own_ms, its excess over the mean of the ranks, and the share of steps in which it was
// the slowest. If the rows do not list the ranks' times: the rank that was the slowest most often; its excess is then 0
// unless it was the slowest in at least kMostly of the steps. rank is -1 if no row has statistics over ranks.
struct SlowestRank {
  int rank = -1;
  double excess_ms = 0, often = 0;
};
SlowestRank slowest_rank(const std::vector<const StepRow*>& steps);
inline constexpr double kMostly = 0.7;  // share of the steps in which the same rank is the slowest
// True if the rank's excess is at least 3 % of a step and at least 0.1 ms, the noise of clocks and schedulers, and if
// the rank is the slowest clearly more often than by chance, because a few long steps alone can raise a mean.
bool is_slow(const SlowestRank& rank, double step_ms, double ranks);
// Each op's bytes, calls and times per step. busbw_gbps is all bytes over all busy time.
std::vector<CommRow> mean_comm(const std::vector<const StepRow*>& steps);

}  // namespace lt::report
