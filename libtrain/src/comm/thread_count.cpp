// Finds grants of cores, divides them among ranks, and derives the number of threads.
#include "comm/thread_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "device/cgroup.h"
#include "device/host.h"
#include "io/lines.h"
#include "kernels/threads.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

constexpr int kMostCores = 1 << 16;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int read_cores(const char* name, const std::string& text) {
  int cores = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cores);
  if (error != std::errc() || end != text.data() + text.size() || cores < 1 || cores > kMostCores) {
    throw CommError(fmt::format("{}: expected a number from 1 to {}, got \"{}\"", name, kMostCores, text),
                    "unset it, or give it such a number");
  }
  return cores;
}

// "0-3,8" for 0, 1, 2, 3, 8.
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0, last = 0; i < numbers.size(); i = last + 1) {
    last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text +=
        fmt::format("{}{}{}", text.empty() ? "" : ",", numbers[i], last > i ? fmt::format("-{}", numbers[last]) : "");
  }
  return text;
}

std::string cores_text(double cores) { return fmt::format("{:g} core{}", cores, cores == 1 ? "" : "s"); }

}  // namespace

CoreSources core_sources(const LaunchInfo& info, const std::filesystem::path& root) {
  CoreSources sources;
  sources.kernel = device::kernel_identity(root);
  sources.processors = kernels::usable_processors();
  for (const device::CpuQuota& quota : device::cpu_quotas(root)) {
    sources.quotas.push_back({quota.group, quota.cores, "a quota of " + cores_text(quota.cores)});
  }
  sources.slurm_cpus_per_task = variable("SLURM_CPUS_PER_TASK");
  if (info.source == "Slurm") {  // under another launcher they may describe its own start on the node
    sources.slurm_cpus_on_node = variable("SLURM_CPUS_ON_NODE");
    sources.slurm_step =
        fmt::format("{}.{} {}", variable("SLURM_JOB_ID"), variable("SLURM_STEP_ID"), variable("SLURM_NODEID"));
  }
  return sources;
}

std::vector<CoreGrant> core_grants(const CoreSources& sources) {
  std::vector<CoreGrant> grants;
  if (const std::string& text = sources.slurm_cpus_per_task; !text.empty()) {
    grants.push_back({"", static_cast<double>(read_cores("SLURM_CPUS_PER_TASK", text)), "SLURM_CPUS_PER_TASK=" + text});
  }
  if (const std::string& text = sources.slurm_cpus_on_node; !text.empty()) {
    const double cores = read_cores("SLURM_CPUS_ON_NODE", text);
    grants.push_back({"slurm " + sources.slurm_step, cores, "Slurm's grant of " + cores_text(cores) + " on this node"});
  }
  if (!sources.processors.empty()) {
    const auto cores = static_cast<double>(sources.processors.size());
    grants.push_back({fmt::format("processors {} {}", sources.kernel, ranges(sources.processors)), cores,
                      cores_text(cores) + " of this host"});
  }
  for (const CoreGrant& quota : sources.quotas) {
    grants.push_back({fmt::format("quota {} {}", sources.kernel, quota.key), quota.cores, quota.words});
  }
  return grants;
}

ThreadCount thread_count(const std::vector<CoreGrant>& grants,
                         const std::vector<std::vector<std::string>>& keys_of_ranks) {
  ThreadCount least;
  double least_share = kMostCores;
  for (const CoreGrant& grant : grants) {
    const auto shares_it = [&](const auto& keys) {
      return std::find(keys.begin(), keys.end(), grant.key) != keys.end();
    };
    // A grant without a key belongs to this rank alone.
    const auto ranks = grant.key.empty() ? 1
                                         : std::max<std::ptrdiff_t>(
                                               1, std::count_if(keys_of_ranks.begin(), keys_of_ranks.end(), shares_it));
    const double share = grant.cores / static_cast<double>(ranks);
    if (share >= least_share) continue;
    least_share = share;
    least = {std::max(1, static_cast<int>(share)),
             ranks == 1 ? grant.words : fmt::format("{} over {} ranks", grant.words, ranks)};
  }
  if (least.reason.empty()) least.reason = "nothing says how many cores there are";
  return least;
}

ThreadCount choose_threads(const std::vector<CoreGrant>& grants, const Group& world) {
  kernels::require_processor();
  std::string own;
  for (const CoreGrant& grant : grants) own += grant.key + "\n";
  std::vector<std::vector<std::string>> keys_of_ranks;
  for (const std::string& keys : world.all_gather_bytes(own)) keys_of_ranks.push_back(io::split_lines(keys));
  if (const std::string given = variable("OMP_NUM_THREADS"); !given.empty()) {
    std::string first = given.substr(0, given.find(','));  // OpenMP allows blanks around a number
    first.erase(first.find_last_not_of(' ') + 1);
    first.erase(0, first.find_first_not_of(' '));
    read_cores("OMP_NUM_THREADS", first);  // OpenMP ignores any other text
    return {kernels::threads(), "OMP_NUM_THREADS"};
  }
  const ThreadCount chosen = thread_count(grants, keys_of_ranks);
  kernels::set_threads(chosen.count);
  return chosen;
}

}  // namespace lt::comm
