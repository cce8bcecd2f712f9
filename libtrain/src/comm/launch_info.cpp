// Reads this process's place in the run from the launcher's environment. Uses the first complete set of variables.
// Throws for invalid values, and for an incomplete set that describes several ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comm/alone.h"
#include "libtrain/comm/world.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

struct Variables {
  const char* source;
  const char *rank, *size, *local_rank;
  bool may_lack_local_rank;
  const char* local_size;                  // optional; null if slurm_local_size() finds it
  std::array<const char*, 2> also_needed;  // may be null
  bool is_slurm;                           // counts only in a step of srun, and lists the tasks of each node
};

constexpr Variables kLaunchers[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     false,
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {},
     false},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", false, nullptr, {"SLURM_STEP_ID"}, true},
    {"torchrun variables",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     true,
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

bool is_special_step() { return read_number("SLURM_STEP_ID", 0, 0xffffffff) >= kSlurmSpecialSteps; }

// The variables of a set that are not set but needed.
std::vector<std::string_view> missing_of(const Variables& names) {
  std::vector<std::string_view> missing;
  const auto need = [&](const char* name) {
    if (name != nullptr && !is_set(name)) missing.emplace_back(name);
  };
  need(names.rank), need(names.size);
  if (!names.may_lack_local_rank) need(names.local_rank);
  for (const char* name : names.also_needed) need(name);
  return missing;
}

bool is_complete(const Variables& names) {
  if (!missing_of(names).empty()) return false;
  return !names.is_slurm || !is_special_step();
}

// Whether the set has the number of a rank that is not the first. RANK alone may be another program's: it counts beside
// a place to meet.
bool is_later_rank(const Variables& names) {
  const std::string_view text = value_of(names.rank);
  const bool is_number = text.find_first_not_of("0123456789") == text.npos && text.find_first_not_of('0') != text.npos;
  const auto& needed = names.also_needed;
  return is_number &&
         (needed[0] == nullptr || std::ranges::any_of(needed, [](const char* name) { return is_set(name); }));
}

// Throws for a set that says there are several ranks and is not complete. Each of them would train on its own. Slurm's
// batch script is one process of an allocation for several tasks, so its variables say nothing.
void refuse_incomplete(const Variables& names) {
  if (names.is_slurm && (!is_set("SLURM_STEP_ID") || is_special_step())) return;
  const bool has_size = is_set(names.size);
  if (has_size ? read_number(names.size, 1, kMostRanks) == 1 : !is_later_rank(names)) return;
  const char* const said = has_size ? names.size : names.rank;
  throw CommError(fmt::format("{}={}: expected {} too, which {} not set", said, value_of(said),
                              fmt::join(missing_of(names), ", "), missing_of(names).size() == 1 ? "is" : "are"),
                  fmt::format("set {} for each rank, or unset {} for a run of one",
                              missing_of(names).size() == 1 ? "it" : "them", said));
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
  // A launcher numbers the ranks of a host one after another.
  const bool says_local_rank = is_set(names.local_rank);
  const Size local_rank = says_local_rank ? read_number(names.local_rank, 0, local_size - 1) : rank % local_size;
  return {static_cast<int>(rank),       static_cast<int>(size), static_cast<int>(local_rank),
          static_cast<int>(local_size), names.source,           says_local_rank || is_set(names.local_size)};
}

}  // namespace

std::string run_of_one_hint(const LaunchInfo& info) {
  const bool is_slurm = info.source == "Slurm";
  return fmt::format("{} for a run of one",
                     is_slurm ? "srun -n 1, or unset SLURM_STEP_ID," : "unset WORLD_SIZE and RANK");
}

}  // namespace lt::comm

namespace lt {

LaunchInfo discover_ranks() {
  for (const comm::Variables& names : comm::kLaunchers) {
    if (comm::is_complete(names)) return comm::read_launcher(names);
  }
  for (const comm::Variables& names : comm::kLaunchers) comm::refuse_incomplete(names);
  return {};
}

}  // namespace lt
