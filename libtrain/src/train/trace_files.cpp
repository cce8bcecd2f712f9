// Writes each piece of events to two files: its rank's and the common one.
#include "train/trace_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "record/chrome_trace.h"

namespace lt {
namespace {

// Removes the files of an earlier start. If it had more ranks, some would remain beside the new trace.
void remove_rank_files(const std::string& folder) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".json")) std::filesystem::remove(entry.path(), failed);
    if (failed) break;
  }
  if (failed) throw DataError("record", folder + ": cannot remove an earlier trace: " + failed.message());
}

void write(PendingFile& file, std::string_view text) { file.write(text.data(), text.size()); }

}  // namespace

template <class F>
void TraceFiles::attempt(F&& write) try {
  if (!failure_) write();
} catch (const DataError& error) {
  failure_ = error;
}

TraceFiles::TraceFiles(const RunLog& log) : log_(log) {
  attempt([&] {
    const std::string all = log_.in_folder("trace", "all.json");
    remove_rank_files(std::filesystem::path(all).parent_path().string());
    write(all_.emplace("record", all), kTraceBegin);
  });
}

void TraceFiles::add(int rank, std::string_view piece) {
  if (rank != rank_) finish_rank();
  attempt([&] {
    if (rank != std::exchange(rank_, rank)) {
      if (rank > 0) write(*all_, kTraceSeparator);
      write(of_rank_.emplace("record", log_.in_folder("trace", fmt::format("rank-{}.json", rank))), kTraceBegin);
    }
    write(*of_rank_, piece);
    write(*all_, piece);
  });
}

void TraceFiles::finish_rank() {
  attempt([&] {
    if (!of_rank_) return;
    write(*of_rank_, kTraceEnd);
    of_rank_->commit();
    of_rank_.reset();
  });
}

std::string TraceFiles::commit() {
  finish_rank();
  attempt([&] {
    write(*all_, kTraceEnd);
    all_->commit();
  });
  if (failure_) throw *failure_;
  return log_.in_folder("trace", "all.json");
}

}  // namespace lt
