// Says what a reader of an unfinished or damaged run needs: its error, skipped updates, and how to continue it.
#include <fmt/format.h>

#include <set>
#include <string>

#include "record/record.h"
#include "record/short_text.h"
#include "report/saved.h"
#include "report/sections.h"
#include "report/text.h"

namespace lt::report {
namespace {

// How to continue an unfinished run from its checkpoint of step `saved`, or where it starts again if that is 0. Empty
// if that is unknown: a killed run may have left newer copies in memory, of which neither record nor disk says
// anything.
Paragraph how_to_continue(const RunData& run, double saved, bool is_killed) {
  std::string command = environment_text(run, "command");
  const std::string resume = config_text(run, "checkpoint.resume");
  if (command == "–" || resume == "–") return {};
  const bool has_copies = is_killed && config_number(run, "checkpoint.memory_every") > 0;
  if (saved == 0 && has_copies) return {};
  const bool as_before = resume == "auto";
  // The last value of a key counts. A program with a trainer of its own has options of its own.
  if (!as_before && environment_text(run, "command_takes_options") == "true") command += " --checkpoint.resume=auto";
  const std::string there = saved > 0                ? "continues from step " + whole_text(saved)
                            : run.begun_from.empty() ? "begins again at step 1"
                                                     : "begins again from " + run.begun_from;
  std::string where;
  if (const std::string folder = environment_text(run, "working_folder"); folder != "–" && !folder.empty())
    where += ", in " + folder;
  if (run.ranks > 0) where += fmt::format(", on {:g} rank{}", run.ranks, run.ranks == 1 ? "" : "s");
  if (!where.empty()) where += ",";
  return {fmt::format("Started again {}{} it {}{}:", as_before ? "as before" : "with checkpoint.resume=auto", where,
                      there, has_copies ? ", or from a newer copy in memory of the hosts" : ""),
          command};
}

// Steps without an update.
struct Skips {
  int count = 0;
  std::string steps;
  std::set<std::string> reasons;

  void add(const Event& event) {
    steps += (count++ == 0 ? "" : ", ") + whole_text(event.step);
    reasons.insert(event_field(event, "reason"));
  }
  // In words, where there are any.
  std::string text(const char* why) const {
    if (count == 0) return "";
    return fmt::format("{} in {}, so the update was skipped: {}.", why, recorder::counted(count, "step"),
                       count > 10 ? "see Record" : steps);
  }
};

const char* what_was_not_finite(const Skips& skips) {
  const auto all_are = [&](const char* reason) { return skips.reasons == std::set<std::string>{reason}; };
  return all_are("loss not finite")            ? "The loss was not finite"
         : all_are("gradient norm not finite") ? "The gradient norm was not finite"
                                               : "Loss or gradient was not finite";
}

// What a run that a signal stopped has saved.
std::string saved_text(const Summary& s, const Saved& newest) {
  if (newest.step >= s.steps) return "Its state was saved.";
  if (newest.step > 0)
    return fmt::format("Its {} checkpoint is that of step {}.", newest.on_disk ? "newest" : "last recorded",
                       whole_text(newest.step));
  return newest.on_disk ? "It has no checkpoint." : "No checkpoint of it is recorded.";
}

}  // namespace

void add_status(Document& document, const RunData& run, const Summary& s) {
  Skips not_finite, without_targets;
  for (const Event& event : run.events) {
    if (event.kind != "skip") continue;
    (event_field(event, "reason") == recorder::kNoTargetCounts ? without_targets : not_finite).add(event);
  }
  const Saved newest = newest_saved(run);
  const std::string reason = end_of(run);
  const bool has_no_end = reason.empty() && !run.starts.empty(), has_failed = has_no_end && !run.last_error.empty();
  const bool is_short = !reason.empty() && reason != "steps" && config_number(run, "train.steps") > s.steps;
  const bool would_repeat = reason == kNotFinite && newest.step == 0;  // the same steps, up to the one that stopped it
  const bool can_continue = (reason == kNotFinite || has_no_end || is_short) && !would_repeat;
  const Paragraph next = can_continue ? how_to_continue(run, newest.step, reason.empty()) : Paragraph{};
  std::string text;
  const auto add = [&](const std::string& sentence) {
    text += (text.empty() || sentence.empty() ? "" : " ") + sentence;
  };
  if (has_no_end && !has_failed) add("The record has no end event: the run is still running, was killed, or failed.");
  if (is_short && reason.starts_with(kSignal) && next.text.empty()) add(saved_text(s, newest));
  if (reason != kNotFinite || not_finite.count > 1) add(not_finite.text(what_was_not_finite(not_finite)));
  add(without_targets.text("No target counted"));
  add(next.text);
  if (has_failed || (reason == kNotFinite && !run.last_error.empty()))
    document.add(Paragraph{"Its log ends with: " + run.last_error});
  if (!text.empty()) document.add(Paragraph{text, next.code});
}

}  // namespace lt::report
