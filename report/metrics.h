// Reads a run's metrics.jsonl.
#pragma once

#include <string>

#include "report/data.h"

namespace lt::report {

// Adds the rows and events of the file `path` to `run`. Throws DataError, which names file and line.
void read_metrics(RunData& run, const std::string& path);

}  // namespace lt::report
