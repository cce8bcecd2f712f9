// The hosts, or devices of the only host, without which a run continues: a rank there failed in two attempts in a row.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/supervisor/hosts.h"
#include "launch/supervisor/launcher.h"
#include "launch/supervisor/rank_starter.h"
#include "libtrain/device/device.h"

namespace lt::launch {

class LeftOut {
 public:
  // `all`: the ranks of a first attempt. `device`: train.device; nullopt: auto.
  LeftOut(const Ranks& all, std::optional<DeviceType> device, Launcher launcher);

  // Call it after each attempt that failed. `rank`: the rank that failed, if it is known. If the same rank failed in
  // the attempt before, on the same hosts and devices, leaves out its host. If there is no other host, leaves out its
  // device, or without GPUs the rank alone; hosts that are absent then stay absent. Leaves out no device under srun,
  // which may give each rank a device of its own. Returns what it has left out now, such as "host b of rank 3", or an
  // empty text.
  std::string add(const Ranks& ranks, std::optional<int> rank);

  // True if ranks on these hosts train on GPUs. If train.device is auto and this build has CUDA, other hosts than this
  // one count as having GPUs, because this process cannot look there. Does not open CUDA, because this process
  // would hold the device between attempts.
  bool uses_gpus(const std::vector<Host>& hosts) const;

  bool is_empty() const { return text_.empty(); }
  // What is left out so far: "host b, device 2".
  const std::string& text() const { return text_; }

  // What is not left out: hosts of the hostfile, and devices for CUDA_VISIBLE_DEVICES if one is left out, else an empty
  // text.
  const std::vector<Host>& hosts() const { return hosts_; }
  std::string devices() const;
  // The number of ranks for which `hosts` have slots, without devices and ranks that are left out. `hosts` is empty
  // without a hostfile.
  int slots(const std::vector<Host>& hosts) const;

 private:
  // Both return the words for it, or an empty text if it is not known.
  std::string add_host(const Ranks& ranks, int rank);
  std::string add_device(const Ranks& ranks, int rank);

  std::string text_;
  std::vector<Host> hosts_;           // of the hostfile, without those that are left out
  std::optional<DeviceType> device_;  // nullopt: auto
  Launcher launcher_;
  std::optional<std::vector<std::string>> devices_;  // that remain, as in CUDA_VISIBLE_DEVICES, once one is left out
  int most_ranks_;                                   // of all hosts
  std::string layout_;                               // of the last attempt's ranks
  std::optional<int> failed_;                        // in the last attempt
};

}  // namespace lt::launch
