// Files of a run for the tests of the report: metrics.jsonl as a run writes it.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>

#include "test_main/temp_folder.h"

namespace fixture {

namespace fs = std::filesystem;
using lt_test::read_text;
using lt_test::TempFolder;
using lt_test::write_text;

// `more`: further fields, each with a comma before it.
inline std::string start_line(int ranks, int step = 0, const std::string& more = "") {
  return R"({"event":"start","step":)" + std::to_string(step) + R"(,"ranks":)" + std::to_string(ranks) + more +
         R"(,"predicted_peak_bytes":6291456,"ledger":{"parameters":1048576,"activations":5242880}})"
         "\n";
}

inline std::string step_line(int step, double loss, double ms) {
  std::ostringstream o;
  o << R"({"step":)" << step << R"(,"tokens":2048,"loss":)" << loss << R"(,"grad_norm":0.5,"lr":1e-3,"step_ms":)" << ms
    << R"(,"tokens_per_s":)" << 2048e3 / ms << R"(,"tokens_per_s_per_rank":)" << 1024e3 / ms
    << R"(,"mfu":null,"memory_peak_bytes":6291456,"memory_outside_bytes":1048576,"breakdown_ms":{"forward":)"
    << ms * 0.25 << R"(,"backward":)" << ms * 0.75
    << R"(},"comm":[{"op":"all_gather","bytes":750000,"calls":2,"busy_ms":1.5,"exposed_ms":0.25,"busbw_gbps":0.5}],)"
    << R"("ranks":{"slowest":1,"step_ms_min":)" << ms * 0.8 << R"(,"step_ms_mean":)" << ms * 0.9 << R"(,"step_ms_max":)"
    << ms << R"(,"own_ms_min":)" << ms * 0.6 << R"(,"own_ms_mean":)" << ms * 0.7 << R"(,"own_ms_max":)" << ms * 0.8
    << R"(,"own_ms":[)" << ms * 0.6 << "," << ms * 0.8 << R"(],"parts_ms":{"forward":{"min":)" << ms * 0.2
    << R"(,"mean":)" << ms * 0.25 << R"(,"max":)" << ms * 0.3 << R"(,"rank":1},"backward":{"min":)" << ms * 0.7
    << R"(,"mean":)" << ms * 0.75 << R"(,"max":)" << ms * 0.8 << R"(,"rank":0}}}})"
    << "\n";
  return o.str();
}

inline std::string steps(int first, int last, double loss, double ms = 100) {
  std::string text;
  for (int step = first; step <= last; ++step) text += step_line(step, loss, ms);
  return text;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace fixture
