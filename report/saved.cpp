// Looks for checkpoints on disk and in the record.
#include "report/saved.h"

#include <cmath>
#include <exception>
#include <filesystem>

#include "checkpoints/format/find.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "report/text.h"

namespace lt::report {

double newest_on_disk(const RunData& run) {
  namespace fs = std::filesystem;
  const std::string given = config_text(run, "checkpoint.dir");
  // The folder may have another path here than the one that the run knew.
  const bool in_folder = given == kDash || given == config_text(run, "run.dir") + "/checkpoints";
  const fs::path checkpoints = in_folder ? fs::path(run.directory) / "checkpoints" : fs::path(given);
  std::error_code unknown;
  if (!fs::is_directory(checkpoints, unknown)) return kMissing;
  try {
    checkpoint::RunFilter runs{run.id};
    for (const auto& [id, dir] : run.copied_from) {
      if (fs::weakly_canonical(checkpoints, unknown) != dir) runs.copied_from.push_back(id);
    }
    const auto candidates = checkpoint::candidates(checkpoints.string(), runs);
    const checkpoint::Listing* const newest = checkpoint::newest_valid(candidates);
    if (newest != nullptr) return static_cast<double>(newest->step);
    // A folder of that name may belong to another run: a relative path is relative to the run's working directory.
    const bool may_be_elsewhere = !in_folder && checkpoints.is_relative();
    return may_be_elsewhere || checkpoint::first_unreadable(candidates) ? kMissing : 0;
  } catch (const std::exception&) {
    return kMissing;
  }
}

double last_recorded(const RunData& run) {
  double saved = kMissing;
  for (const Event& event : run.events) {
    if (event.kind == "checkpoint") saved = event.step;
  }
  return saved;
}

Saved newest_saved(const RunData& run) {
  if (!std::isnan(run.saved_step)) return {run.saved_step, true};
  const double recorded = last_recorded(run);
  return {std::isnan(recorded) ? 0 : recorded, false};
}

}  // namespace lt::report
