// The outputs of a run: the console and log.txt, metrics.jsonl and other sinks. Only rank 0 opens the log; before
// open(), nothing is written. Opening throws on failure. If a later write fails, its lines are lost with a warning, and
// the run continues.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "record/lossy_lines.h"
#include "record/lost_rows.h"
#include "record/record.h"
#include "record/sink.h"

namespace lt::recorder {

class RunLog {
 public:
  // `console` takes the lines of the console, without their ends; empty: standard output. Throws DataError.
  void open(const std::string& run_dir, std::function<void(std::string_view line)> console = {});
  // Adds a sink that writes to `path`.
  void add(const std::string& path, std::unique_ptr<Sink> sink);

  // Writes to log.txt and the console. Passes on exceptions of the console's function.
  void say(const std::string& line);
  // Writes to log.txt only.
  void note(const std::string& line);
  // Writes to metrics.jsonl and every sink.
  void step(const StepRecord& record);
  void evaluation(Size step, double loss);
  void event(const nlohmann::ordered_json& event);
  // Writes the event `start`. It voids lines of earlier attempts, so it must not be lost on a full disk: it is kept and
  // written before the next line.
  void start(const nlohmann::ordered_json& event);
  void sync();
  // The paths of the files with rows, for a caller that syncs them on another thread. Empty on ranks that write
  // nothing.
  std::vector<std::string> row_files() const;

  // Runs `write`, which writes into the run's folder `folder`. A failure is reported, and the run continues.
  template <class F>
  void keep(const std::string& folder, F&& write) {
    folders_.try_emplace(folder, folder_ + "/" + folder).first->second.attempt(step_, write);
  }
  // The path of a file in a folder of the run. Creates the folder if it does not exist. Throws DataError.
  std::string in_folder(const std::string& folder, const std::string& file) const;

 private:
  std::string line_of(const nlohmann::ordered_json& event);
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
  Size step_ = 0;  // step of the last row or event
  std::function<void(std::string_view line)> console_;
  bool has_console_ = true;
  std::unique_ptr<LossyLines> log_, metrics_;
  std::vector<LossySink> sinks_;
  std::map<std::string, LostRows> folders_;
};

}  // namespace lt::recorder
