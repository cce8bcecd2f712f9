// Writes each piece of events to two files: its rank's file and all.json.
#include "run/trace_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "record/chrome_trace.h"

namespace lt::run {
namespace {

namespace fs = std::filesystem;

bool is_trace(const std::string& name) {
  return name == "all.json" || (name.starts_with("rank-") && name.ends_with(".json"));
}

// Moves the trace of an earlier start to `folder`/old-K, with the first K that is free.
void keep_earlier_trace(const fs::path& folder) {
  std::error_code failed;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (is_trace(entry->path().filename().string())) files.push_back(entry->path());
  }
  fs::path aside;
  for (int k = 1; !failed && !files.empty() && (k == 1 || fs::exists(aside, failed)); ++k) {
    aside = folder / fmt::format("old-{}", k);
  }
  if (!failed && !files.empty()) fs::create_directory(aside, failed);
  for (auto file = files.begin(); !failed && file != files.end(); ++file) {
    fs::rename(*file, aside / file->filename(), failed);
  }
  if (failed) throw DataError("record", folder.string() + ": cannot move an earlier trace aside: " + failed.message());
}

void write(io::PendingFile& file, std::string_view text) { file.write(text.data(), text.size()); }

}  // namespace

template <class F>
void TraceFiles::attempt(F&& write) try {
  if (!failure_) write();
} catch (const DataError& error) {
  failure_ = error;
}

TraceFiles::TraceFiles(const recorder::RunLog& log) : log_(log) {
  attempt([&] {
    const std::string all = log_.in_folder("trace", "all.json");
    keep_earlier_trace(fs::path(all).parent_path());
    io::remove_pending(all);
    write(all_.emplace("record", all), recorder::kTraceBegin);
  });
}

void TraceFiles::add(int rank, std::string_view piece) {
  if (rank != rank_) finish_rank();
  attempt([&] {
    if (rank != std::exchange(rank_, rank)) {
      if (rank > 0) write(*all_, recorder::kTraceSeparator);
      write(of_rank_.emplace("record", log_.in_folder("trace", fmt::format("rank-{}.json", rank))),
            recorder::kTraceBegin);
    }
    write(*of_rank_, piece);
    write(*all_, piece);
  });
}

void TraceFiles::finish_rank() {
  attempt([&] {
    if (!of_rank_) return;
    write(*of_rank_, recorder::kTraceEnd);
    of_rank_->commit();
    of_rank_.reset();
  });
}

std::string TraceFiles::commit() {
  finish_rank();
  attempt([&] {
    write(*all_, recorder::kTraceEnd);
    all_->commit();
  });
  if (failure_) throw *failure_;
  return log_.in_folder("trace", "all.json");
}

}  // namespace lt::run
