// Reads the record of a run.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "test_main/temp_folder.h"

namespace lt_test {

// The rows and events in metrics.jsonl of the run's folder, in their order.
inline std::vector<nlohmann::json> rows_of(const std::string& run_dir) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(read_text(run_dir + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

}  // namespace lt_test
