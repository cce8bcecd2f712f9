// Back ends without communication: `self`, where a collective is a copy or nothing, and `meta`, whose peers exist on
// paper only. Staging and bytes are those of the MPI back end for the same size.
#include <cstring>
#include <string>

#include "comm/backend.h"
#include "kernels/elementwise.h"

namespace lt {

GroupBackend::Staging GroupBackend::staging(Size n, DType dtype, DType wire) const {
  if (size() == 1) return {};
  return {dtype == wire ? 0 : n, (size() - 1) * Group::part_size(n, size(), rank())};
}

GroupPlace GroupBackend::split_place(const std::vector<int>& colors, std::string name) const {
  GroupPlace place{0, 0, place_.run_rank, place_.run_size, std::move(name)};
  int first = 0;
  for (int r = 0; r < size(); ++r) {
    if (colors[static_cast<std::size_t>(r)] != colors[static_cast<std::size_t>(rank())]) continue;
    if (place.size == 0) first = r;
    if (place.size == 1) place.stride = (r - first) * place_.stride;
    if (r < rank()) ++place.rank;
    ++place.size;
  }
  return place;
}

namespace {

class LocalBackend : public GroupBackend {
 public:
  using GroupBackend::GroupBackend;

  bool takes(Device) const override { return true; }
  std::unique_ptr<Transfer> broadcast(DType, Size, void*, int) override { return nullptr; }
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
    if (call.n > 0 && call.full_N != call.part_P) {
      std::memcpy(call.full_N, call.part_P, static_cast<std::size_t>(call.n * dtype_bytes(call.dtype)));
    }
    return nullptr;
  }

  std::unique_ptr<Transfer> reduce_scatter(const ReduceScatterCall& call) override {
    if (call.n > 0 && (call.accumulate || call.full_N != call.part_P)) {
      kernels::convert(CpuStream{}, call.dtype, call.part_P, call.dtype, call.full_N, call.n, call.accumulate);
    }
    return nullptr;
  }

  std::shared_ptr<GroupBackend> split(const std::vector<int>& colors, std::string name) override {
    return make_self_backend(split_place(colors, std::move(name)));
  }
};

class MetaBackend final : public LocalBackend {
 public:
  using LocalBackend::LocalBackend;

  bool is_paper() const override { return true; }
  std::unique_ptr<Transfer> all_gather(const AllGatherCall&) override { return nullptr; }
  std::unique_ptr<Transfer> reduce_scatter(const ReduceScatterCall&) override { return nullptr; }
  std::shared_ptr<GroupBackend> split(const std::vector<int>& colors, std::string name) override {
    return make_meta_backend(split_place(colors, std::move(name)));
  }
};

}  // namespace

std::shared_ptr<GroupBackend> make_self_backend(GroupPlace place) {
  return std::make_shared<SelfBackend>(std::move(place));
}

std::shared_ptr<GroupBackend> make_meta_backend(GroupPlace place) {
  return std::make_shared<MetaBackend>(std::move(place));
}

}  // namespace lt
