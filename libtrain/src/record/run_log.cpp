// Writes the lines, rows and events of a run.
#include "record/run_log.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/print_note.h"
#include "libtrain/error.h"
#include "record/short_text.h"

namespace lt::recorder {
namespace {

std::string event_of_gap(const LostRows::Gap& gap) {
  const nlohmann::ordered_json event = {
      {"event", "lost"}, {"step", gap.last_step}, {"rows", gap.rows}, {"first_step", gap.first_step}};
  return event.dump();
}

std::string line_of_gap(const LostRows::Gap& gap) {
  return fmt::format("warning: {} of steps {} to {} could not be written here", counted(gap.rows, "line"),
                     gap.first_step, gap.last_step);
}

}  // namespace

void RunLog::open(const std::string& run_dir, std::function<void(std::string_view line)> console) {
  folder_ = run_dir, console_ = std::move(console);
  log_ = std::make_unique<LossyLines>(run_dir + "/log.txt", line_of_gap);
  metrics_ = std::make_unique<LossyLines>(run_dir + "/metrics.jsonl", event_of_gap);
}

void RunLog::add(const std::string& path, std::unique_ptr<Sink> sink) {
  sinks_.push_back({std::move(sink), std::make_unique<LostRows>(path)});
}

void RunLog::say(const std::string& line) {
  if (log_ == nullptr) return;
  note(line);
  if (console_) return console_(line);
  if (!has_console_) return;  // a lost console is no error of the run
  has_console_ = io::write_console(line + "\n");
}

void RunLog::note(const std::string& line) {
  if (log_ != nullptr) log_->append(step_, line);
}

void RunLog::step(const StepRecord& record) {
  if (metrics_ == nullptr) return;
  step_ = record.step;
  metrics_->append(step_, to_json_line(record));
  to_sinks([&](Sink& sink) { sink.step(record); }, 1);
}

void RunLog::evaluation(Size step, double loss) {
  to_sinks([&](Sink& sink) { sink.evaluation(step, loss); }, 1);
}

void RunLog::event(const nlohmann::ordered_json& event) {
  if (metrics_ == nullptr) return;
  const std::string line = line_of(event);
  metrics_->append(step_, line);
}

void RunLog::start(const nlohmann::ordered_json& event) {
  if (metrics_ != nullptr) metrics_->append_or_keep(line_of(event));
}

std::string RunLog::line_of(const nlohmann::ordered_json& event) {
  step_ = event.value("step", step_);
  // A message may name a path of any bytes.
  return event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void RunLog::sync() {
  if (metrics_ != nullptr) metrics_->sync(step_);
  to_sinks([](Sink& sink) { sink.sync(); }, 0);
}

std::vector<std::string> RunLog::row_files() const {
  return metrics_ == nullptr ? std::vector<std::string>{} : std::vector<std::string>{folder_ + "/metrics.jsonl"};
}

std::string RunLog::in_folder(const std::string& folder, const std::string& file) const {
  const std::string path = folder_ + "/" + folder;
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) throw DataError("record", path + ": cannot create: " + failed.message());
  return path + "/" + file;
}

}  // namespace lt::recorder
