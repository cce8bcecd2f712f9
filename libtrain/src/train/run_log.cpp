// Events of a run as JSON lines.
#include "train/run_log.h"

#include <nlohmann/json.hpp>

namespace lt {

void RunLog::event(const nlohmann::ordered_json& event) { row(event.dump()); }

}  // namespace lt
