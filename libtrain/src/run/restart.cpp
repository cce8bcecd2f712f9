// Reads and writes LTRAIN_RESTART and the event `restart`. Both are JSON.
#include "run/restart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "device/host.h"
#include "device/seconds.h"
#include "io/last_lines.h"
#include "libtrain/error.h"

namespace lt::run {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRow = R"({"step":)";
constexpr const char* kStart = R"({"event":"start")";

// The step of a line that starts with `begin`: a row or a start event.
std::optional<Size> step_of(const std::string& line, const char* begin) {
  if (!line.starts_with(begin)) return std::nullopt;
  const Json row = Json::parse(line, nullptr, false);
  if (row.is_discarded() || !row.contains("step") || !row["step"].is_number_integer()) return std::nullopt;
  return row["step"].get<Size>();
}

// The newest step before the line that `lines` returned last. The nearest row or start event has it, so only a line or
// two are read, however long the run is.
Size newest_step(io::LastLines& lines) {
  while (const auto line = lines.next()) {
    if (const auto step = step_of(line->text, kRow)) return *step;
    if (const auto step = step_of(line->text, kStart)) return *step;
  }
  return 0;
}

double seconds_since_begin(const Restart& r) {
  const bool is_same_host = r.kernel == device::kernel_identity();
  return std::max(0.0, is_same_host ? device::monotonic_seconds() - r.began_monotonic : device::since_1970() - r.began);
}

}  // namespace

std::string to_json(const Restart& r) {
  return Json{{"attempt", r.attempt},
              {"cause", r.cause},
              {"exit_code", r.exit_code},
              {"notice", r.notice_s},
              {"backoff", r.backoff_s},
              {"began", r.began},
              {"began_monotonic", r.began_monotonic},
              {"kernel", r.kernel}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Restart> restart_of_environment() {
  const char* text = std::getenv(kRestartVariable);
  if (text == nullptr) return std::nullopt;
  try {
    const Json o = Json::parse(text);
    return Restart{.attempt = o.at("attempt").get<int>(),
                   .cause = o.at("cause").get<std::string>(),
                   .exit_code = o.at("exit_code").get<int>(),
                   .notice_s = o.at("notice").get<double>(),
                   .backoff_s = o.at("backoff").get<double>(),
                   .began = o.at("began").get<double>(),
                   .began_monotonic = o.value("began_monotonic", 0.0),
                   .kernel = o.value("kernel", std::string())};
  } catch (const Json::exception&) {
    throw UsageError("config", fmt::format("{}: expected what ltrain launch sets, got \"{}\"", kRestartVariable, text),
                     "unset it");
  }
}

std::optional<RestartPoint> restart_point(const std::string& metrics, std::size_t offset) {
  io::LastLines lines(metrics);
  for (auto line = lines.next(); line && line->begin >= offset; line = lines.next()) {
    if (const auto step = step_of(line->text, kStart)) return RestartPoint{*step, newest_step(lines)};
  }
  return std::nullopt;
}

Json restart_event(const Restart& r, const std::optional<RestartPoint>& point) {
  const double start_s = seconds_since_begin(r);
  return {{"event", "restart"},
          {"attempt", r.attempt},
          {"step", point ? Json(point->step) : Json(nullptr)},
          {"cause", r.cause},
          {"exit_code", r.exit_code},
          {"lost_steps", point ? Json(std::max<Size>(0, point->newest_before - point->step)) : Json(nullptr)},
          {"down_seconds",
           {{"notice", r.notice_s},
            {"backoff", r.backoff_s},
            {"start", start_s},
            {"total", r.notice_s + r.backoff_s + start_s}}}};
}

RestartRecord::RestartRecord(Run& run, const std::optional<Restart>& restart) : run_(run) {
  if (!restart || run.world.rank() != 0) return;
  restart_ = restart;
  io::LastLines metrics(run.resolved.run.dir + "/metrics.jsonl");
  point_ = {run.steps_done(), newest_step(metrics)};
}

void RestartRecord::step_done() {
  if (!restart_) return;
  const Json event = restart_event(*restart_, point_);
  restart_.reset();
  run_.log.event(event);
  const Json& down = event["down_seconds"];
  const auto seconds = [&](const char* key) { return down[key].get<double>(); };
  run_.log.say(
      fmt::format("attempt {}, because {}: down {:.2f} s (notice {:.2f}, backoff {:.2f}, start {:.2f}), steps lost: {}",
                  event["attempt"].get<int>(), event["cause"].get<std::string>(), seconds("total"), seconds("notice"),
                  seconds("backoff"), seconds("start"), event["lost_steps"].dump()));
}

}  // namespace lt::run
