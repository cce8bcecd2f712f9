// Reads a run's folder for the report. Invariant: no file is trusted, and all but metrics.jsonl may be missing.
#include "report/data.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "checkpoints/format/layout.h"
#include "drawing/arena_drawing.h"
#include "report/files.h"
#include "report/json.h"
#include "report/metrics.h"
#include "report/report.h"
#include "report/saved.h"
#include "report/segments.h"
#include "report/text.h"

namespace lt::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSamplesShown = 3;
constexpr std::size_t kSampleBytes = 4000;
constexpr std::size_t kArenaBytes = 4'000'000;
constexpr std::size_t kLogBytes = 64'000;

// Position of the comment with a derived key's value, as in `min_lr = -1.0  # = 3e-05`; npos if there is none.
constexpr std::string_view kDerivedMark = "  # = ";
std::size_t place_of_derived(const std::string& line) {
  const std::size_t mark = line.find(kDerivedMark);
  const bool in_text =
      mark != line.npos && std::count(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(mark), '"') % 2 == 1;
  return in_text ? line.npos : mark;
}

// Reads the TOML that to_toml() writes: sections of `key = value` lines. Values stay text; those of derived keys count.
void read_config(RunData& run, const std::string& toml) {
  std::istringstream lines(toml);
  std::string section;
  const auto trimmed = [](std::string_view s) {
    const std::size_t first = s.find_first_not_of(" \t\r"), last = s.find_last_not_of(" \t\r");
    return first == std::string_view::npos ? std::string() : std::string(s.substr(first, last - first + 1));
  };
  for (std::string line; std::getline(lines, line);) {
    line = trimmed(line);
    if (line.starts_with("# steps = ")) line = line.substr(2);  // those of a run with data.epochs
    if (const std::size_t mark = place_of_derived(line); mark != line.npos) {
      line = line.substr(0, line.find('=') + 1) + line.substr(mark + kDerivedMark.size());
    }
    const std::size_t equals = line.find('=');
    if (line.starts_with('[') && line.ends_with(']')) {
      section = line.substr(1, line.size() - 2) + ".";
    } else if (!line.starts_with('#') && equals != std::string::npos) {
      run.config[section + trimmed(std::string_view(line).substr(0, equals))] =
          trimmed(std::string_view(line).substr(equals + 1));
    }
  }
}

void flatten(const Json& value, const std::string& name, std::vector<std::pair<std::string, std::string>>& out) {
  if (!value.is_object()) {
    out.emplace_back(name, json_text(value));
    return;
  }
  for (const auto& [key, inner] : value.items()) flatten(inner, name.empty() ? key : name + "." + key, out);
}

// Gives a file beside the metrics to `take`, which returns false if it is damaged. Notes a file that exists and cannot
// be read or taken.
template <class Take>
void read_beside(RunData& run, const char* name, std::size_t at_most, Take take) {
  const fs::path path = fs::path(run.directory) / name;
  std::error_code unknown;
  if (!fs::exists(path, unknown)) return;
  const auto text = file_text(path.string(), at_most);
  if (!text || !take(*text)) run.unreadable.push_back(name);
}

std::string last_error_of(const std::string& log) {
  std::string error;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("error: ")) error = line;
    // An error before a start is that of an earlier attempt.
    if (line.starts_with("step ") || line.starts_with("run folder: ")) error.clear();
  }
  return error;
}

void read_samples(RunData& run, const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  // Not those that a later start superseded, and no temporary files.
  const std::string newest = checkpoint::step_name(static_cast<Size>(steps_done(run))) + ".txt";
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file(none) && name.ends_with(".txt") && name <= newest) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.size() > kSamplesShown) files.erase(files.begin(), files.end() - kSamplesShown);
  for (const fs::path& file : files) {
    if (auto text = file_text(file.string()))
      run.samples.emplace_back(file.filename().string(), text->substr(0, kSampleBytes));
  }
}

// The first step after each later start is left out too: like the first of all it pays for what is done once.
std::vector<const StepRow*> without_warm_up(const std::vector<const StepRow*>& steps) {
  const std::size_t n = steps.size(), skipped = n < 3 ? 0 : std::clamp<std::size_t>(n / 10, 1, 10);
  std::vector<const StepRow*> kept;
  for (std::size_t i = skipped; i < n; ++i) {
    if (n < 3 || steps[i]->start == steps[i - 1]->start) kept.push_back(steps[i]);
  }
  // A run that was restarted after each step has no other steps.
  if (kept.empty()) kept.assign(steps.begin() + static_cast<std::ptrdiff_t>(skipped), steps.end());
  return kept;
}

}  // namespace

RunData read_run(const std::string& directory) {
  RunData run;
  run.directory = run_folder(directory);
  const fs::path folder = run.directory;
  const bool named = folder.has_filename() && folder != "." && folder.filename() != "..";
  run.name = (named ? folder : fs::weakly_canonical(folder)).filename().string();
  std::error_code unknown;
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(folder / "metrics.jsonl", unknown);
  run.read_at = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (!unknown) run.changed_at = run.read_at - std::chrono::duration<double>(age).count();
  read_metrics(run, (folder / "metrics.jsonl").string());
  divide_into_segments(run);
  read_beside(run, "config.toml", std::string::npos, [&](const std::string& toml) {
    read_config(run, toml);
    return !run.config.empty();
  });
  if (std::string given = config_text(run, "run.name"); given != kDash) {
    std::replace(given.begin(), given.end(), '\n', ' ');
    run.name = given + " (" + run.name + ")";
  }
  read_beside(run, "env.json", std::string::npos, [&](const std::string& text) {
    const Json environment = parsed_json(text);
    if (environment.is_object()) flatten(environment, "", run.environment);
    return environment.is_object();
  });
  read_beside(run, "run.json", std::string::npos, [&](const std::string& text) {
    const Json identity = parsed_json(text);
    if (!identity.is_object()) return false;
    for (const auto& [key, value] : {std::pair("id", &run.id), std::pair("begun_from", &run.begun_from)}) {
      if (const auto field = identity.find(key); field != identity.end() && field->is_string())
        *value = json_text(*field);
    }
    if (const auto ids = identity.find("copied_from"); ids != identity.end() && ids->is_array()) {
      for (const Json& one : *ids) {
        if (one.is_object()) run.copied_from.emplace_back(one.value("id", ""), one.value("checkpoints", ""));
      }
    }
    return true;
  });
  run.saved_step = newest_on_disk(run);
  read_beside(run, "arena.svg", kArenaBytes, [&](const std::string& drawing) {
    if (drawing::is_arena_svg(drawing)) run.arena_svg = drawing;
    return !run.arena_svg.empty();
  });
  read_samples(run, folder / "samples");
  run.last_error = last_error_of(last_text((folder / "log.txt").string(), kLogBytes));
  if (std::isnan(run.ranks) && !run.steps.empty()) {
    run.ranks = std::round(run.steps.back().tokens_per_s / run.steps.back().tokens_per_s_per_rank);
  }
  return run;
}

std::string end_of(const RunData& run) {
  std::string reason;
  for (const Event& event : run.events) {
    if (event.kind == "start") reason.clear();
    if (event.kind == "end") reason = event_field(event, "reason");
    // A skip after which the attempt goes on states the loss scale. Any other skip ends the attempt.
    const bool stops = event.kind == "skip" && event_field(event, "loss_scale") == "–";
    if (stops && !run.steps.empty() && event.step == run.steps.back().step) reason = kNotFinite;
  }
  return reason;
}

double steps_done(const RunData& run) {
  double done = run.steps.empty() ? 0 : run.steps.back().step;
  for (const Event& event : run.events) {
    const bool follows_its_step = event.kind == "lost" || event.kind == "checkpoint" || event.kind == "end";
    if (follows_its_step) done = std::fmax(done, event.step);
  }
  return done;
}

std::vector<const StepRow*> steps_of(const RunData& run, const Segment& segment) {
  std::vector<const StepRow*> steps;
  for (const StepRow& row : run.steps) {
    if (row.step >= segment.first && row.step <= segment.last) steps.push_back(&row);
  }
  return steps;
}

std::vector<const StepRow*> measured_steps(const RunData& run) {
  if (!run.segments.empty()) return steps_of(run, run.segments.back());
  std::vector<const StepRow*> steps;
  for (const StepRow& row : run.steps) steps.push_back(&row);
  return steps;
}

std::vector<const StepRow*> steady_steps(const RunData& run) { return without_warm_up(measured_steps(run)); }

std::vector<const StepRow*> steady_steps(const RunData& run, const Segment& segment) {
  return without_warm_up(steps_of(run, segment));
}

}  // namespace lt::report
