// A restart by `ltrain launch`: the description that the supervisor passes to the restarted ranks (LTRAIN_RESTART), and
// the event in metrics.jsonl. Rank 0 writes the event after its first step. If the attempt does no step, the supervisor
// writes it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "run/run.h"

namespace lt::run {

inline constexpr const char* kRestartVariable = "LTRAIN_RESTART";

struct Restart {
  int attempt = 0;                     // number of the new attempt, at least 2
  std::string cause;                   // why the previous attempt ended, as text
  int exit_code = 0;                   // exit code of the previous attempt
  double notice_s = 0, backoff_s = 0;  // seconds from the first rank's end to the last one's; wait after that
  double began = 0;                    // start of the attempt, seconds since 1970
  // The start on the monotonic clock of the supervisor's kernel, because a wall clock may be changed. `kernel`:
  // kernel_identity() of that kernel.
  double began_monotonic = 0;
  std::string kernel = {};
};

std::string to_json(const Restart& restart);
// Returns nullopt if the variable is not set. Throws UsageError if it cannot be parsed.
std::optional<Restart> restart_of_environment();

// The step from which an attempt continued, and the newest step recorded before. The steps between them are lost.
struct RestartPoint {
  Size step = 0, newest_before = 0;
};

// Returns the point of the last `start` event at or after byte `offset` of the file `metrics`; nullopt if there is
// none.
std::optional<RestartPoint> restart_point(const std::string& metrics, std::size_t offset);

// Step and lost steps are null if the point is unknown.
nlohmann::ordered_json restart_event(const Restart& restart, const std::optional<RestartPoint>& point);

// Announces a restarted run once, after its first step.
class RestartRecord {
 public:
  // Construct it before announce() writes this attempt's `start` event.
  RestartRecord(Run& run, const std::optional<Restart>& restart);
  void step_done();

 private:
  Run& run_;
  std::optional<Restart> restart_;  // only on rank 0, until announced
  RestartPoint point_;
};

}  // namespace lt::run
