// This process's place in the run, read from the launcher's environment. A set of variables counts if it is complete;
// invalid values are errors.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "libtrain/comm/world.h"
#include "libtrain/error.h"

namespace lt {
namespace {

struct Variables {
  const char* source;
  const char *rank, *size, *local_rank;
  const char* local_size;                  // optional; null if slurm_local_size() finds it
  std::array<const char*, 2> also_needed;  // may be null
  bool is_slurm;                           // counts only in a step of srun, and lists the tasks of each node
};

constexpr Variables kLaunchers[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {},
     false},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, {"SLURM_STEP_ID"}, true},
    {"torchrun variables",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     "LOCAL_WORLD_SIZE",
     {"MASTER_ADDR", "MASTER_PORT"},
     false},
};

// Empty if the variable is not set.
std::string_view value_of(const char* name) {
  const char* value = name == nullptr ? nullptr : std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool is_set(const char* name) { return !value_of(name).empty(); }

[[noreturn]] void fail(const char* name, const std::string& expected) {
  throw CommError(fmt::format("{}: expected {}, got \"{}\"", name, expected, value_of(name)),
                  "unset it, or start the ranks with mpirun or srun");
}

Size read_number(const char* name, Size least, Size most) {
  const std::string_view text = value_of(name);
  const char* end = text.data() + text.size();
  Size value = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most) {
    fail(name, fmt::format("a number from {} to {}", least, most));
  }
  return value;
}

constexpr Size kMostRanks = 1 << 20;
// Slurm numbers the batch script, external and interactive steps from here on; srun did not start those.
constexpr Size kSlurmSpecialSteps = 0xfffffff0;

bool is_complete(const Variables& names) {
  if (!is_set(names.rank) || !is_set(names.size) || !is_set(names.local_rank)) return false;
  for (const char* name : names.also_needed) {
    if (name != nullptr && !is_set(name)) return false;
  }
  return !names.is_slurm || read_number("SLURM_STEP_ID", 0, 0xffffffff) < kSlurmSpecialSteps;
}

// Tasks on this node: entry SLURM_NODEID of a list such as "4(x2),3", which stands for 4, 4, 3.
std::optional<Size> slurm_local_size() {
  const char* name = is_set("SLURM_STEP_TASKS_PER_NODE") ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
  if (!is_set(name) || !is_set("SLURM_NODEID")) return std::nullopt;
  Size node = read_number("SLURM_NODEID", 0, kMostRanks);
  const std::string_view list = value_of(name);
  const char* text = list.data();
  const char* end = text + list.size();
  while (text < end) {
    Size tasks = 0, nodes = 1;
    auto [stop, error] = std::from_chars(text, end, tasks);
    if (error != std::errc() || tasks < 1) break;
    if (end - stop > 2 && stop[0] == '(' && stop[1] == 'x') {
      const auto repeated = std::from_chars(stop + 2, end, nodes);
      if (repeated.ec != std::errc() || repeated.ptr == end || *repeated.ptr != ')') break;
      stop = repeated.ptr + 1;
    }
    if (node < nodes) return tasks;
    node -= nodes;
    if (stop == end || *stop != ',') break;
    text = stop + 1;
  }
  fail(name, "a list such as 4(x2),3 with an entry for each node");
}

LaunchInfo read_launcher(const Variables& names) {
  const Size size = read_number(names.size, 1, kMostRanks);
  const Size rank = read_number(names.rank, 0, size - 1);
  Size local_size = size;  // one host, unless a variable says otherwise
  if (names.is_slurm) {
    local_size = std::min(size, slurm_local_size().value_or(size));
  } else if (is_set(names.local_size)) {
    local_size = read_number(names.local_size, 1, size);
  }
  const Size local_rank = read_number(names.local_rank, 0, local_size - 1);
  return {static_cast<int>(rank), static_cast<int>(size), static_cast<int>(local_rank), static_cast<int>(local_size),
          names.source};
}

}  // namespace

LaunchInfo discover_ranks() {
  for (const Variables& names : kLaunchers) {
    if (is_complete(names)) return read_launcher(names);
  }
  return {};
}

}  // namespace lt
