// Counts the bytes of checkpoints and reads the free bytes of the file system.
#include "save/checkpoint_space.h"

#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "comm/value_exchange.h"
#include "libtrain/error.h"
#include "record/short_text.h"
#include "save/engine_checkpoint.h"

namespace lt::saver {
namespace {

namespace fs = std::filesystem;

// Nullopt if the file system does not say.
std::optional<Size> free_bytes(const std::string& folder) {
  fs::path place = fs::absolute(folder);
  std::error_code ignored;
  while (!fs::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  struct statvfs status {};
  if (::statvfs(place.c_str(), &status) != 0 || status.f_blocks == 0) return std::nullopt;
  return static_cast<Size>(status.f_bavail) * static_cast<Size>(status.f_frsize);
}

// The multiples of `every` in (begin, end].
Size multiples(Size every, Size begin, Size end) { return every > 0 ? end / every - begin / every : 0; }

}  // namespace

Size checkpoint_bytes(const Engine& engine, const Group& group) {
  const ShardMap shards = saved_state(engine);
  Size bytes = 0;
  for (const StateRange& range : shards.owned) {
    if (range.begin == range.end) continue;
    const auto kind = std::ranges::find(shards.kinds, range.kind, &StateKind::name);
    bytes += (range.end - range.begin) * dtype_bytes(kind->dtype) + 1024;
  }
  return comm::sum_over_ranks(group, bytes);
}

Size most_new_checkpoints(const CheckpointConfig& config, Size steps, Size steps_done, Size present) {
  const Size last = std::max(steps - 1, steps_done);  // the last step is saved whatever the cadence
  const Size saves =
      config.every_minutes > 0 ? std::max<Size>(1, steps - steps_done) : multiples(config.every, steps_done, last) + 1;
  const Size kept_for_ever = config.every > 0 && config.keep_every > 0
                                 ? multiples(std::lcm(config.every, config.keep_every), steps_done, steps)
                                 : 0;
  const Size at_once = std::max<Size>(config.keep, 2) + 1 + kept_for_ever + (config.best ? 1 : 0);
  return std::min(saves, std::max<Size>(1, at_once - present));
}

std::string require_space(const std::string& dir, Size bytes, Size count, bool is_new) {
  const std::optional<Size> free = free_bytes(dir);
  if (!free || *free / std::max<Size>(1, bytes) >= count) return "";
  if (is_new && *free < bytes) {
    throw DataError(
        "checkpoint",
        fmt::format("checkpoint.dir {}: expected {} bytes free for a checkpoint, found {}", dir, bytes, *free),
        "choose another --checkpoint.dir, or --run.dir where it is not given");
  }
  return fmt::format("checkpoint.dir {}: the run will add {} of {}B, and {}B are free", dir,
                     recorder::counted(count, "checkpoint"), recorder::short_count(static_cast<double>(bytes)),
                     recorder::short_count(static_cast<double>(*free)));
}

}  // namespace lt::saver
