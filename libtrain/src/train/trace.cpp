// The timeline of some steps, gathered over the ranks.
#include "train/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/pending_file.h"
#include "record/chrome_trace.h"

namespace lt {

void Trace::before_step(Size step) {
  if (step != begin_ || begin_ == end_) return;
  run_.control.barrier();  // the ranks' clocks begin together
  timeline_ = make_cpu_timeline();
  current_.emplace(timeline_);
}

void Trace::after_step(Size step) {
  if (timeline_ == nullptr || step != std::min(end_ - 1, run_.config.train.steps)) return;
  current_.reset();
  write();
  timeline_.reset();
}

void Trace::write() {
  const auto ranks = run_.control.all_gather_bytes(trace_events(run_.world.rank(), timeline_->spans()));
  collectively(run_.control, [&] {
    if (run_.world.rank() != 0) return;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      write_whole_file("record", run_.log.in_folder("trace", fmt::format("rank-{}.json", r)),
                       trace_document({ranks[r]}));
    }
    const std::string all = run_.log.in_folder("trace", "all.json");
    write_whole_file("record", all, trace_document(ranks));
    run_.log.say("trace: " + all);
  });
}

}  // namespace lt
