// A back end for tensors on one device. The control back end of the same ranks carries everything else: bytes,
// barriers, tensors on the CPU.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/backend.h"

namespace lt::comm {

class DeviceBackend : public GroupBackend {
  // The control back end may belong to a group that makes calls too, so this group needs another id.
  static GroupPlace place_beside(GroupPlace place, std::vector<int> hosts) {
    place.id = group_id(place.id, 0, 0);
    place.hosts = std::move(hosts);
    return place;
  }

 public:
  // `hosts`: GroupPlace::hosts.
  DeviceBackend(std::shared_ptr<GroupBackend> control, Device device, std::vector<int> hosts = {})
      : GroupBackend(place_beside(control->place(), std::move(hosts))), control_(std::move(control)), device_(device) {}

  // split() first splits the control back end, so both need the value.
  void let_arrive_at_most(Size bytes) final {
    GroupBackend::let_arrive_at_most(bytes);
    control_->let_arrive_at_most(bytes);
  }
  bool takes(Device device) const final { return device == device_ || control_->takes(device); }
  std::unique_ptr<Transfer> all_gather(const AllGatherCall& call) final {
    return call.device == device_ ? gather_on_device(call) : control_->all_gather(call);
  }
  std::unique_ptr<Transfer> reduce_scatter(const ReduceScatterCall& call) final {
    return call.device == device_ ? reduce_on_device(call) : control_->reduce_scatter(call);
  }
  std::unique_ptr<Transfer> all_to_all(const AllToAllCall& call) final {
    return call.device == device_ ? all_to_all_on_device(call) : control_->all_to_all(call);
  }
  std::unique_ptr<Transfer> broadcast(const BroadcastCall& call) final {
    return call.device == device_ ? broadcast_on_device(call) : control_->broadcast(call);
  }
  void barrier() final { control_->barrier(); }
  void idle_barrier() final { control_->idle_barrier(); }
  std::vector<std::string> all_gather_bytes(const std::string& mine) final { return control_->all_gather_bytes(mine); }
  std::string broadcast_bytes(const std::string& value, int root) final {
    return control_->broadcast_bytes(value, root);
  }
  std::shared_ptr<GroupBackend> duplicate_patient(std::string name) final {
    return control_->duplicate_patient(std::move(name));
  }

 protected:
  virtual std::unique_ptr<Transfer> gather_on_device(const AllGatherCall& call) = 0;
  virtual std::unique_ptr<Transfer> reduce_on_device(const ReduceScatterCall& call) = 0;
  virtual std::unique_ptr<Transfer> all_to_all_on_device(const AllToAllCall& call) = 0;
  virtual std::unique_ptr<Transfer> broadcast_on_device(const BroadcastCall& call) = 0;

  GroupBackend& control() const { return *control_; }
  const std::shared_ptr<GroupBackend>& shared_control() const { return control_; }
  Device device() const { return device_; }

 private:
  std::shared_ptr<GroupBackend> control_;
  Device device_;
};

}  // namespace lt::comm
