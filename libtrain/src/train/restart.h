// A restart by `ltrain launch`: what the supervisor tells the ranks that it starts again (LTRAIN_RESTART), and the
// event that the run's metrics get of it. Rank 0 writes it after its first step; the supervisor, where no step was
// done.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "train/run.h"

namespace lt {

inline constexpr const char* kRestartVariable = "LTRAIN_RESTART";

struct Restart {
  int attempt = 0;                     // the one that begins, from 2
  std::string cause;                   // of the end of the one before, in words
  int exit_code = 0;                   // of that one
  double notice_s = 0, backoff_s = 0;  // from the first rank's end until no process was left; waited since
  double began = 0;                    // when the attempt was started, seconds since 1970
};

std::string to_json(const Restart& restart);
// Nothing where the variable is not set. Throws UsageError where it makes no sense.
std::optional<Restart> restart_of_environment();

// The step from which an attempt went on, and the newest one on record before it: those between are lost.
struct RestartPoint {
  Size step = 0, newest_before = 0;
};

// The point of the last `start` in the metrics at or behind `offset`; nothing where there is none.
std::optional<RestartPoint> restart_point(const std::string& metrics, std::size_t offset);

// Step and lost steps are null where the point is not known.
nlohmann::ordered_json restart_event(const Restart& restart, const std::optional<RestartPoint>& point);

// Announces a restarted run once, when its first step is done.
class RestartRecord {
 public:
  // Make it before announce() writes this attempt's `start`.
  RestartRecord(Run& run, const std::optional<Restart>& restart);
  void step_done();

 private:
  Run& run_;
  std::optional<Restart> restart_;  // on rank 0
  RestartPoint point_;
};

}  // namespace lt
