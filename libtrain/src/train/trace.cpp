// The timeline of some steps, gathered over the ranks.
#include "train/trace.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/pending_file.h"
#include "libtrain/error.h"
#include "record/chrome_trace.h"

namespace lt {
namespace {

// An earlier start may have had more ranks: what it left would stand beside the trace of fewer.
void remove_rank_files(const std::string& folder) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".json")) std::filesystem::remove(entry.path(), failed);
    if (failed) break;
  }
  if (failed) throw DataError("record", folder + ": cannot remove an earlier trace: " + failed.message());
}

}  // namespace

bool Trace::before_step(Size step) {
  if (step != begin_ || begin_ == end_) return false;
  run_.control.barrier();  // the ranks' clocks begin together
  timeline_ = make_timeline(run_.device());
  current_.emplace(timeline_);
  return true;
}

bool Trace::after_step(Size step) {
  if (timeline_ == nullptr) return false;
  if (step + 1 == end_) stop();
  if (step != end_) return false;
  write();
  return true;
}

void Trace::finish() {
  stop();
  if (written_ || begin_ == end_) return;
  if (timeline_ != nullptr) return write();
  run_.log.say("trace: none, the run ended before its second step");
}

void Trace::write() {
  const auto ranks = run_.control.all_gather_bytes(trace_events(run_.world.rank(), timeline_->spans()));
  collectively(run_.control, [&] {
    if (run_.world.rank() != 0) return;
    const std::string all = run_.log.in_folder("trace", "all.json");
    remove_rank_files(std::filesystem::path(all).parent_path().string());
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      write_whole_file("record", run_.log.in_folder("trace", fmt::format("rank-{}.json", r)),
                       trace_document({ranks[r]}));
    }
    write_whole_file("record", all, trace_document(ranks));
    run_.log.say("trace: " + all);
  });
  timeline_.reset();
  written_ = true;
}

}  // namespace lt
