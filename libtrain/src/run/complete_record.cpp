// Reads metrics.jsonl backwards to its last row.
#include "run/complete_record.h"

#include <nlohmann/json.hpp>
#include <string>

#include "io/last_lines.h"

namespace lt::run {

void complete_record(Run& run) {
  if (run.world.rank() != 0 || run.begins_from_other_run()) return;
  using Json = nlohmann::ordered_json;
  const Size done = run.steps_done();
  bool has_checkpoint = false;
  io::LastLines lines(run.resolved.run.dir + "/metrics.jsonl");
  for (auto line = lines.next();; line = lines.next()) {
    if (!line) return;  // no attempt has recorded anything
    const Json row = Json::parse(line->text, nullptr, false);
    if (!row.is_object()) continue;
    const auto number = row.find("step");
    const Size step = number != row.end() && number->is_number_integer() ? number->get<Size>() : -1;
    const auto event = row.find("event");
    const std::string kind = event != row.end() && event->is_string() ? event->get<std::string>() : "row";
    const bool tells_progress = kind == "row" || kind == "start" || kind == "checkpoint" || kind == "lost";
    if (tells_progress && step > done) return;
    if (kind == "end" && step >= done) return;
    // A start at the last step began from its checkpoint, whose event stands before it.
    has_checkpoint = has_checkpoint || ((kind == "checkpoint" || kind == "start") && step == done);
    if (kind == "row" || kind == "start" || kind == "end") break;
  }
  if (!has_checkpoint) {
    run.log.event({{"event", "checkpoint"},
                   {"step", done},
                   {"path", checkpoint_of(run.from.start)->folder},
                   {"seconds", nullptr},
                   {"stall_seconds", nullptr}});
  }
  run.log.event({{"event", "end"}, {"step", done}, {"reason", "steps"}, {"seconds", nullptr}});
}

}  // namespace lt::run
