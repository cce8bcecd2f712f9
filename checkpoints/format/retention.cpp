// Decides which checkpoints are superfluous.
#include "checkpoints/format/retention.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "checkpoints/format/files.h"
#include "checkpoints/format/find.h"
#include "checkpoints/format/known_folders.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/run_id.h"
#include "io/file.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

// The step of the whole checkpoint with the lowest evaluation loss, the first of equals; -1 if none was evaluated.
Size best_step(std::vector<Listing> listings) {
  std::erase_if(listings, [](const Listing& entry) { return !entry.eval_loss; });
  std::sort(listings.begin(), listings.end(), [](const Listing& a, const Listing& b) {
    return std::tuple(*a.eval_loss, a.step) < std::tuple(*b.eval_loss, b.step);
  });
  const auto best = std::find_if(listings.begin(), listings.end(), [](const Listing& e) { return is_whole(e.path); });
  return best == listings.end() ? -1 : best->step;
}

// The checkpoints of `own` to remove. These are the run's, valid by manifest and sizes, oldest first.
std::vector<fs::path> superfluous(const std::vector<Listing>& own, const std::string& newest,
                                  const SaveOptions& options) {
  const int keep = std::max(options.keep, 2);
  if (own.size() <= static_cast<std::size_t>(keep)) return {};
  const Size best = options.best ? best_step(own) : -1;
  std::vector<fs::path> going;
  int staying = 1;  // the one just written
  for (auto entry = own.rbegin(); entry != own.rend(); ++entry) {
    const fs::path folder = entry->path;
    if (folder.filename() == newest) continue;
    const bool always = (options.keep_every > 0 && entry->step % options.keep_every == 0) || entry->step == best;
    if (always && staying >= keep) continue;  // whole or not, it stays
    if (!is_whole(folder)) continue;
    if (staying++ >= keep) going.push_back(folder);
  }
  return going;
}

}  // namespace

void write_latest(const fs::path& directory, const std::string& name, const std::string& attempt) {
  const std::string line = name + "\n";
  io::PendingFile latest("checkpoint", (directory / kLatestName).string(), attempt);
  latest.write(line.data(), line.size());
  latest.commit();
}

void remove_superfluous(const fs::path& directory, const std::string& newest, const std::string& run,
                        const SaveOptions& options) {
  const RunFilter runs = filter_of(run, options);
  std::vector<Listing> own = saved_in(directory.string());
  std::erase_if(own, [&](const Listing& entry) { return !entry.valid || !runs.includes(entry.run); });
  for (const fs::path& folder : superfluous(own, newest, options)) {
    // Renamed first, so that an interrupted removal leaves no folder that looks like a damaged checkpoint.
    const fs::path discarded = directory / discarded_name(folder.filename().string(), attempt_of(run));
    rename_durably(folder, discarded);
    remove_tree(discarded);
  }
}

void remove_leftovers(const fs::path& directory, const RunFilter& runs) {
  const auto is_own = [&](const std::string& name) {
    const auto is_of = [&](const std::string& run) { return is_leftover(name, run); };
    return is_of(runs.run) || std::ranges::any_of(runs.copied_from, is_of);
  };
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    if (is_own(entry.path().filename().string())) remove_tree(entry.path());
  }
}

}  // namespace lt::checkpoint
