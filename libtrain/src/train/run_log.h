// Where a run writes to: the console and log.txt, metrics.jsonl and other sinks. Before open(), and on ranks other than
// 0, which never open it, nothing is written.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "libtrain/record.h"
#include "record/line_file.h"
#include "record/sink.h"

namespace lt {

class RunLog {
 public:
  void open(const std::string& run_dir) {
    folder_ = run_dir;
    log_ = std::make_unique<LineFile>(run_dir + "/log.txt");
    metrics_ = std::make_unique<LineFile>(run_dir + "/metrics.jsonl");
  }

  void say(const std::string& line) {
    if (log_ == nullptr) return;
    std::puts(line.c_str());
    std::fflush(stdout);
    log_->append(line);
  }
  // In log.txt alone; the last words of a run that fails, so a full disk is no news.
  void note(const std::string& line) noexcept try {
    if (log_ != nullptr) log_->append(line);
  } catch (...) {
  }
  // The path of a file in a folder of the run, which is made where it is not there. Throws DataError.
  std::string in_folder(const std::string& folder, const std::string& file) const;
  // To metrics.jsonl and every sink.
  void step(const StepRecord& record) {
    if (metrics_ == nullptr) return;
    row(to_json_line(record));
    for (const auto& sink : sinks_) sink->step(record);
  }
  void evaluation(Size step, double loss) {
    for (const auto& sink : sinks_) sink->evaluation(step, loss);
  }
  void add(std::unique_ptr<Sink> sink) { sinks_.push_back(std::move(sink)); }
  void event(const nlohmann::ordered_json& event);
  void sync() {
    if (metrics_ != nullptr) metrics_->sync();
    for (const auto& sink : sinks_) sink->sync();
  }

 private:
  void row(const std::string& json) {
    if (metrics_ != nullptr) metrics_->append(json);
  }

  std::string folder_;
  std::unique_ptr<LineFile> log_, metrics_;
  std::vector<std::unique_ptr<Sink>> sinks_;
};

inline std::vector<std::string> split_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace lt
