// Back ends without communication: `self`, a single rank on any device, and `meta`, whose peers do not exist. A
// collective of `self` is a copy or does nothing. `meta` counts the same staging memory and bytes as MPI or NCCL for a
// group of its size.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "comm/backend.h"
#include "device/copy_bytes.h"
#include "kernels/elementwise.h"
#include "kernels/limits.h"
#include "kernels/reduce.h"
#include "tensor/dispatch.h"

namespace lt::comm {

GroupBackend::Staging GroupBackend::staging(const ReduceScatterCall& call) const {
  if (size() == 1) return {.outgoing = call.dtype == call.wire ? 0 : call.n};
  const Size mine = size_of(call.n, rank());
  const DeviceType target = counted_type(call.device);
  const Size partials = call.wants_squares && target == DeviceType::cuda ? kernels::sum_blocks(mine, call.piece) : 0;
  const Size outgoing = call.dtype == call.wire ? 0 : call.n;
  const HostGrid grid = stages(call.device, call.n);
  kernels::require_summed_ranks(target, std::max(grid.hosts, grid.ranks));
  const Size at_once = std::min(mine, elements_at_once(call));
  const Size host_sums = grid.is_one_stage() ? 0 : 2 * grid.hosts - 1;
  return {outgoing, arriving_parts(grid) * at_once, host_sums * at_once, partials};
}

Size GroupBackend::elements_at_once(const ReduceScatterCall& call) const {
  const Size part = size_of(call.n, 0);  // no other is larger
  if (counted_type(call.device) != DeviceType::cuda || call.n % (size() * kernels::kSumPack) != 0) return part;
  const HostGrid grid = stages(call.device, call.n);
  Size element = arriving_parts(grid) * dtype_bytes(call.wire);
  if (!grid.is_one_stage()) element += (grid.hosts - 1) * dtype_bytes(sum_type(call.wire));
  const Size block_bytes = std::max<Size>(element, 1) * kernels::kSumBlock;
  const Size blocks = kernels::sum_blocks(part), most = std::max<Size>(place_.most_arriving / block_bytes, 1);
  const Size slices = std::max<Size>((blocks + most - 1) / most, 1);
  return std::min(part, (blocks + slices - 1) / slices * kernels::kSumBlock);
}

std::vector<int> GroupBackend::split_hosts(const std::vector<int>& colors) const {
  if (place_.hosts.empty()) return {};
  std::map<int, std::vector<int>> groups;
  for (std::size_t r = 0; r < colors.size(); ++r) groups[colors[r]].push_back(place_.hosts[r]);
  std::vector<int> hosts = groups[colors[static_cast<std::size_t>(rank())]];
  // Groups with different stages would need different memory, and a plan of one rank stands for all.
  const HostGrid own = grid_of(hosts);
  const bool alike = std::all_of(groups.begin(), groups.end(), [&](const auto& group) {
    const HostGrid grid = grid_of(group.second);
    return grid == own || (grid.hosts == 1 && own.hosts == 1);
  });
  if (!alike) std::iota(hosts.begin(), hosts.end(), 0);
  return hosts;
}

GroupPlace GroupBackend::split_place(const std::vector<int>& colors, std::string name) {
  GroupPlace place{0, 0, place_.run_rank, place_.run_size, std::move(name)};
  place.on_paper = place_.on_paper, place.is_even = place_.is_even;
  int first = 0;
  for (int r = 0; r < size(); ++r) {
    if (colors[static_cast<std::size_t>(r)] != colors[static_cast<std::size_t>(rank())]) continue;
    if (place.size == 0) first = r;
    if (place.size == 1) place.stride = (r - first) * place_.stride;
    if (place.size > 1) place.is_even &= (r - first) * place_.stride == place.size * place.stride;
    if (r < rank()) ++place.rank;
    ++place.size;
  }
  place.id = group_id(place_.id, ++splits_, static_cast<std::uint64_t>(first));
  place.hosts = split_hosts(colors);
  place.patient = place_.patient, place.most_arriving = place_.most_arriving;
  return place;
}

GroupPlace GroupBackend::patient_place(std::string name) {
  GroupPlace place = place_;
  place.name = std::move(name);
  place.id = group_id(place_.id, ++splits_, 0);
  place.patient = true;
  return place;
}

namespace {

class LocalBackend : public GroupBackend {
 public:
  using GroupBackend::GroupBackend;

  bool takes(Device) const override { return true; }
  std::unique_ptr<Transfer> all_to_all(const AllToAllCall&) override { return nullptr; }
  std::unique_ptr<Transfer> broadcast(const BroadcastCall&) override { return nullptr; }
  void barrier() override {}
  std::vector<std::string> all_gather_bytes(const std::string& mine) override {
    return std::vector<std::string>(static_cast<std::size_t>(size()), mine);
  }
  std::string broadcast_bytes(const std::string& value, int) override { return value; }
};

class SelfBackend final : public LocalBackend {
 public:
  using LocalBackend::LocalBackend;

  std::unique_ptr<Transfer> all_gather(const AllGatherCall& call) override {
    if (call.n == 0 || call.full_N == call.part_P) return nullptr;
    device::copy_bytes(call.device, call.full_N, call.part_P, call.n * dtype_bytes(call.dtype));
    return nullptr;
  }

  std::unique_ptr<Transfer> reduce_scatter(const ReduceScatterCall& call) override {
    const bool travels = call.wire != call.dtype;
    tensor::dispatch(call.device, [&](auto stream) {
      if (call.n > 0 && travels) {  // rounds as if there were other ranks
        kernels::convert(stream, call.wire, call.outgoing, call.dtype, call.full_N, call.n, false);
      }
      if (call.n > 0 && (travels || !call.addends.empty() || call.full_N != call.part_P)) {
        const void* const values = travels ? call.outgoing : call.full_N;
        kernels::sum_ranks(stream, call.dtype, call.part_P, call.wire, &values, 1, call.n, call.addends);
      }
      if (call.squares != nullptr) {
        kernels::sum_squares(stream, call.dtype, call.squares, call.part_P, call.n, nullptr, call.piece);
      }
    });
    return nullptr;
  }

  std::shared_ptr<GroupBackend> split(const std::vector<int>& colors, std::string name) override {
    return make_self_backend(split_place(colors, std::move(name)));
  }
  std::shared_ptr<GroupBackend> duplicate_patient(std::string name) override {
    return make_self_backend(patient_place(std::move(name)));
  }
};

class MetaBackend final : public LocalBackend {
 public:
  MetaBackend(GroupPlace place, DeviceType planned) : LocalBackend(std::move(place)), planned_(planned) {}

  bool is_paper() const override { return true; }
  DeviceType counted_type(Device) const override { return planned_; }
  std::unique_ptr<Transfer> all_gather(const AllGatherCall&) override { return nullptr; }
  std::unique_ptr<Transfer> reduce_scatter(const ReduceScatterCall&) override { return nullptr; }
  std::shared_ptr<GroupBackend> split(const std::vector<int>& colors, std::string name) override {
    return make_meta_backend(split_place(colors, std::move(name)), planned_);
  }
  std::shared_ptr<GroupBackend> duplicate_patient(std::string name) override {
    return make_meta_backend(patient_place(std::move(name)), planned_);
  }

 private:
  DeviceType planned_;
};

}  // namespace

std::shared_ptr<GroupBackend> make_self_backend(GroupPlace place) {
  return std::make_shared<SelfBackend>(std::move(place));
}

std::shared_ptr<GroupBackend> make_meta_backend(GroupPlace place, DeviceType planned) {
  place.on_paper = true;
  return std::make_shared<MetaBackend>(std::move(place), planned);
}

}  // namespace lt::comm
