// Where a run writes to: the console and log.txt, metrics.jsonl and other sinks. Before open(), and on ranks other than
// 0, which never open it, nothing is written. Opening throws; after it a write that fails loses what it would have
// written, with a warning, and the run goes on.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "libtrain/record/record.h"
#include "record/lossy_lines.h"
#include "record/lost_rows.h"
#include "record/sink.h"

namespace lt {

class RunLog {
 public:
  // Throws DataError.
  void open(const std::string& run_dir);
  // `sink` writes to `path`.
  void add(const std::string& path, std::unique_ptr<Sink> sink);

  void say(const std::string& line);
  // In log.txt alone.
  void note(const std::string& line);
  // To metrics.jsonl and every sink.
  void step(const StepRecord& record);
  void evaluation(Size step, double loss);
  void event(const nlohmann::ordered_json& event);
  void sync();
  // The files of rows, for who syncs them on another thread; none on ranks that write nothing.
  std::vector<std::string> row_files() const;

  // Runs `write`, which writes to `folder` of the run.
  template <class F>
  void keep(const std::string& folder, F&& write) {
    folders_.try_emplace(folder, folder_ + "/" + folder).first->second.attempt(step_, write);
  }
  // The path of a file in a folder of the run, which is made where it is not there. Throws DataError.
  std::string in_folder(const std::string& folder, const std::string& file) const;

 private:
  struct LossySink {
    std::unique_ptr<Sink> sink;
    std::unique_ptr<LostRows> lost;
  };
  template <class F>
  void to_sinks(F&& write, Size rows) {
    for (const LossySink& entry : sinks_)
      entry.lost->attempt(
          step_, [&] { write(*entry.sink); }, rows);
  }

  std::string folder_;
  Size step_ = 0;  // of the last row or event
  bool has_console_ = true;
  std::unique_ptr<LossyLines> log_, metrics_;
  std::vector<LossySink> sinks_;
  std::map<std::string, LostRows> folders_;
};

}  // namespace lt
