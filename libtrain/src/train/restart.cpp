// The variable and the event are JSON.
#include "train/restart.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/last_lines.h"
#include "libtrain/error.h"

namespace lt {
namespace {

using Json = nlohmann::ordered_json;

double since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Resumed {
  std::optional<Size> step;  // of the last start from `offset` on
  Size before = 0;           // the last step that was recorded before that start
};

// Reads a line or two, however long the run: each start goes on at its own step, so the line before it has the last
// step.
Resumed resumed(const std::string& metrics, std::size_t offset) {
  LastLines lines(metrics);
  Resumed found;
  while (const auto line = lines.next()) {
    if (!found.step && line->begin < offset) break;
    const bool is_start = line->text.starts_with(R"({"event":"start")");
    if (!is_start && (!found.step || !line->text.starts_with(R"({"step":)"))) continue;
    const Json row = Json::parse(line->text, nullptr, false);
    if (row.is_discarded() || !row.contains("step") || !row["step"].is_number_integer()) continue;
    const Size step = row["step"].get<Size>();
    if (found.step) {
      found.before = step;
      break;
    }
    found.step = step;
  }
  return found;
}

}  // namespace

std::string to_json(const Restart& r) {
  return Json{{"attempt", r.attempt}, {"cause", r.cause},       {"exit_code", r.exit_code},
              {"notice", r.notice_s}, {"backoff", r.backoff_s}, {"began", r.began}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Restart> restart_of_environment() {
  const char* text = std::getenv(kRestartVariable);
  if (text == nullptr) return std::nullopt;
  try {
    const Json o = Json::parse(text);
    return Restart{o.at("attempt").get<int>(),   o.at("cause").get<std::string>(), o.at("exit_code").get<int>(),
                   o.at("notice").get<double>(), o.at("backoff").get<double>(),    o.at("began").get<double>()};
  } catch (const Json::exception&) {
    throw UsageError("config", fmt::format("{}: expected what ltrain launch sets, got \"{}\"", kRestartVariable, text),
                     "unset it");
  }
}

Json restart_event(const Restart& r, const std::string& metrics, std::size_t offset) {
  const double start_s = std::max(0.0, since_1970() - r.began);
  const Resumed at = resumed(metrics, offset);
  return {{"event", "restart"},
          {"attempt", r.attempt},
          {"step", at.step ? Json(*at.step) : Json(nullptr)},
          {"cause", r.cause},
          {"exit_code", r.exit_code},
          {"lost_steps", at.step ? Json(std::max<Size>(0, at.before - *at.step)) : Json(nullptr)},
          {"down_seconds",
           {{"notice", r.notice_s},
            {"backoff", r.backoff_s},
            {"start", start_s},
            {"total", r.notice_s + r.backoff_s + start_s}}}};
}

RestartRecord::RestartRecord(Run& run) : run_(run) {
  if (run.world.rank() == 0) restart_ = restart_of_environment();
}

void RestartRecord::step_done() {
  if (!restart_) return;
  const Json event = restart_event(*restart_, run_.config.run.dir + "/metrics.jsonl", 0);
  restart_.reset();
  run_.log.event(event);
  const Json& down = event["down_seconds"];
  const auto seconds = [&](const char* part) { return down[part].get<double>(); };
  run_.log.say(
      fmt::format("attempt {}, because {}: down {:.2f} s (notice {:.2f}, backoff {:.2f}, start {:.2f}), steps lost: {}",
                  event["attempt"].get<int>(), event["cause"].get<std::string>(), seconds("total"), seconds("notice"),
                  seconds("backoff"), seconds("start"), event["lost_steps"].dump()));
}

}  // namespace lt
