// The variable and the event are JSON.
#include "train/restart.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

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

// Each start goes on at its own step, so the last step is that of the last line.
Resumed resumed(const std::string& metrics, std::size_t offset) {
  std::ifstream stream(metrics, std::ios::binary);
  Resumed found;
  Size last = 0;
  std::size_t begin = 0;
  for (std::string line; std::getline(stream, line); begin += line.size() + 1) {
    const bool is_start = line.starts_with(R"({"event":"start")");
    if (!is_start && !line.starts_with(R"({"step":)")) continue;
    const Json row = Json::parse(line, nullptr, false);
    if (row.is_discarded() || !row.contains("step") || !row["step"].is_number_integer()) continue;
    if (is_start && begin >= offset) found = {row["step"].get<Size>(), last};
    last = row["step"].get<Size>();
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
  const Resumed at = resumed(metrics, offset);
  const double start_s = std::max(0.0, since_1970() - r.began);
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
