// Records the timeline and the kernels of some steps, and gathers them from all ranks.
#include "run/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "record/chrome_trace.h"
#include "run/trace_files.h"

namespace lt::run {

Trace::Trace(Run& run)
    : run_(run),
      begin_(run.steps_done() + 2),
      end_(begin_ + std::max(run.resolved.record.trace_steps, run.resolved.record.profile_steps)),
      kernels_end_(begin_ + run.resolved.record.profile_steps) {}

bool Trace::before_step(Size step) {
  if (step != begin_ || begin_ == end_) return false;
  records_kernels_ = begin_ < kernels_end_;
  if (records_kernels_) collectively(run_.control, [&] { run_.kernels->start(); });
  run_.control.barrier();  // so that the clocks of all ranks begin together
  timeline_ = records_kernels_ ? make_timeline(run_.device(), run_.kernels->mark()) : make_timeline(run_.device());
  current_.emplace(timeline_);
  return true;
}

bool Trace::after_step(Size step) {
  if (timeline_ == nullptr) return false;
  const bool stops_kernels = records_kernels_ && step + 1 == kernels_end_;
  if (stops_kernels) stop_kernels();
  if (step + 1 == end_) stop();
  if (step != end_) return stops_kernels;
  write();
  return true;
}

void Trace::stop() {
  stop_kernels();
  current_.reset();
}

void Trace::stop_kernels() {
  if (!std::exchange(records_kernels_, false)) return;
  collectively(run_.control, [&] { kernels_ = run_.kernels->stop(); });
}

void Trace::finish() {
  stop();
  if (written_ || begin_ == end_) return;
  if (timeline_ != nullptr) return write();
  run_.log.say("trace: none, the run ended before its second step");
}

void Trace::write() {
  const bool writes = run_.world.rank() == 0;
  std::optional<TraceFiles> files;
  if (writes) files.emplace(run_.log);
  gather_in_pieces(run_.control, recorder::trace_events(run_.world.rank(), timeline_->spans(), kernels_.records),
                   [&](int rank, const std::string& piece) { files->add(rank, piece); });
  if (writes) run_.log.keep("trace", [&] { run_.log.say("trace: " + files->commit()); });
  if (kernels_end_ > begin_) say_kernels();
  timeline_.reset();
  kernels_ = {};
  written_ = true;
}

void Trace::say_kernels() const {
  const nlohmann::json mine = {kernels_.records.size(), kernels_.lost, kernels_.error_us};
  Size records = 0, lost = 0;
  double error_us = 0;
  for (const std::string& text : run_.control.all_gather_bytes(mine.dump())) {
    const auto rank = nlohmann::json::parse(text);
    records += rank[0].get<Size>(), lost += rank[1].get<Size>();
    error_us = std::max(error_us, rank[2].get<double>());
  }
  if (run_.world.rank() != 0) return;
  run_.log.say(fmt::format("kernels: {} in the trace, within {:.1f} us of its spans' clock", records, error_us));
  if (lost > 0) run_.log.say(fmt::format("warning: CUPTI lost {} kernels; the trace lacks them", lost));
}

}  // namespace lt::run
