// Finds the place of a rank: mpirun fills one host after another, and on a host rank r takes device r.
#include "launch/supervisor/left_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "device/cuda.h"
#include "launch/host_facts.h"

namespace lt::launch {
namespace {

constexpr const char* kDevices = "CUDA_VISIBLE_DEVICES";

// This process's CUDA_VISIBLE_DEVICES, which ranks inherit that are all on this host; else null.
const char* inherited_devices(const std::vector<Host>& hosts) {
  return are_this_host(hosts) ? std::getenv(kDevices) : nullptr;
}

// What ranks on one host see: the entries of CUDA_VISIBLE_DEVICES, else the first `slots` devices. Others may belong to
// another run.
std::vector<std::string> visible_devices(const std::vector<Host>& hosts, int slots) {
  std::vector<std::string> devices;
  if (const char* const given = inherited_devices(hosts); given != nullptr) {
    std::istringstream entries(given);
    for (std::string entry; std::getline(entries, entry, ',');) devices.push_back(entry);
  } else {
    for (int i = 0; i < slots; ++i) devices.push_back(std::to_string(i));
  }
  return devices;
}

}  // namespace

LeftOut::LeftOut(const Ranks& all, std::optional<DeviceType> device, Launcher launcher)
    : hosts_(all.hosts), device_(device), launcher_(launcher), most_ranks_(all.count) {}

bool LeftOut::uses_gpus(const std::vector<Host>& hosts) const {
  if (device_) return *device_ == DeviceType::cuda;
  if (!device::cuda::is_built()) return false;
  if (!are_this_host(hosts)) return true;
  const char* const given = inherited_devices(hosts);
  const bool hides_all = given != nullptr && (*given == '\0' || *given == '-');  // "" or "-1"
  return has_gpu() && !hides_all;
}

std::string LeftOut::add(const Ranks& ranks, std::optional<int> rank) {
  const std::string layout = fmt::format("{}\n{}\n{}", ranks.count, hostfile_text(ranks.hosts), ranks.devices);
  const bool is_second = rank && rank == failed_ && layout == layout_;
  layout_ = layout, failed_ = rank;
  if (!is_second) return {};
  failed_.reset();
  const bool is_one_host = ranks.hosts.size() == 1 || are_this_host(ranks.hosts);
  const std::string what = is_one_host ? add_device(ranks, *rank) : add_host(ranks, *rank);
  if (what.empty()) return {};
  text_ += (text_.empty() ? "" : ", ") + what;
  return is_one_host && !uses_gpus(ranks.hosts) ? what : fmt::format("{} of rank {}", what, *rank);
}

std::string LeftOut::add_host(const Ranks& ranks, int rank) {
  const std::optional<Host> host = host_of(rank, ranks.count, ranks.hosts);
  if (!host) return {};
  std::erase_if(hosts_, [&](const Host& other) { return other.name == host->name; });
  return "host " + host->name;
}

std::string LeftOut::add_device(const Ranks& ranks, int rank) {
  std::string what = fmt::format("rank {}", rank);
  if (uses_gpus(ranks.hosts)) {
    if (launcher_ == Launcher::srun) return {};
    std::vector<std::string> devices =
        devices_.value_or(visible_devices(ranks.hosts, hosts_.empty() ? most_ranks_ : slots_of(ranks.hosts)));
    const std::size_t at = devices.size() == 1 ? 0 : static_cast<std::size_t>(rank);
    if (at >= devices.size()) return {};
    what = "device " + devices[at];
    devices.erase(devices.begin() + static_cast<std::ptrdiff_t>(at));
    devices_ = devices;
  } else {
    most_ranks_ = ranks.count - 1;
  }
  hosts_ = ranks.hosts;
  return what;
}

std::string LeftOut::devices() const { return devices_ ? fmt::format("{}", fmt::join(*devices_, ",")) : ""; }

int LeftOut::slots(const std::vector<Host>& hosts) const {
  int slots = most_ranks_;
  if (!hosts_.empty()) slots = std::min(slots, slots_of(hosts));
  if (devices_) slots = std::min(slots, static_cast<int>(devices_->size()));
  return slots;
}

}  // namespace lt::launch
