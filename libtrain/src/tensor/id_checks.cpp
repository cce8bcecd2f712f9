// Formats the error of a bad id, and keeps the checks of each CUDA device.
#include "tensor/id_checks.h"

#include <algorithm>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "device/copy_bytes.h"
#include "libtrain/device/context.h"
#include "libtrain/error.h"
#include "tensor/dispatch.h"

namespace lt::tensor {
namespace {

// Never destroyed: tensors in static variables may be read late.
IdChecks& checks_of_device(Device device) {
  static auto& all = *new std::map<int, IdChecks>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  const auto found = all.find(device.index);
  if (found != all.end()) return found->second;
  std::uint64_t* word = nullptr;
  dispatch(device, [&]<class S>(S stream) {
    if constexpr (std::is_same_v<S, CudaStream>) word = kernels::word_of_device(stream);
  });
  return all.try_emplace(device.index, device, word).first->second;
}

}  // namespace

IdUse use_of(std::string_view operation, std::string_view argument, const Tensor& ids, Size V, const IdChecks* checks) {
  return {operation, argument, V, ids.dims() < 2 ? 0 : ids.dim(-1), checks != nullptr && checks->has_one_a_sample(ids)};
}

void refuse_id(const IdUse& use, Size position, std::int32_t id) {
  const std::string place = use.one_a_sample ? "sample " + std::to_string(position)
                            : use.row == 0   ? "position " + std::to_string(position)
                                             : "sample " + std::to_string(position / use.row) + ", position " +
                                                 std::to_string(position % use.row);
  throw UsageError("ops", std::string(use.operation) + ": " + std::string(use.argument) + ": expected ids from 0 to " +
                              std::to_string(use.V - 1) + ", got " + std::to_string(id) + " at " + place);
}

IdChecks* IdChecks::on(Device device) {
  if (device.type != DeviceType::cuda) return nullptr;
  IdChecks* const own = Context::current().ids;
  return own != nullptr && own->device_ == device ? own : &checks_of_device(device);
}

bool IdChecks::has_one_a_sample(const Tensor& ids) const { return ids.dims() == 1 && ids.dim(0) == samples_; }

Size IdChecks::position_of(const Tensor& ids) const {
  if (ids.dims() < 2) return has_one_a_sample(ids) ? first_sample_ : 0;
  return ids.dim(0) == 0 ? 0 : first_sample_ * (ids.elements() / ids.dim(0));
}

kernels::IdCheck IdChecks::add(const IdUse& use, const Tensor& ids) {
  const std::lock_guard lock(mutex_);
  auto at = static_cast<std::size_t>(std::find(uses_.begin(), uses_.end(), use) - uses_.begin());
  if (at == uses_.size()) {
    if (at < kernels::kMostIdChecks) {
      uses_.push_back(use);
    } else {
      at = std::exchange(oldest_, (oldest_ + 1) % kernels::kMostIdChecks);
      uses_[at] = use;
    }
  }
  is_new_ = true;
  return {word_, position_of(ids), static_cast<int>(at)};
}

void IdChecks::receive(std::uint64_t& to) {
  const std::lock_guard lock(mutex_);
  if (is_new_) device::copy_bytes(device_, &to, word_, sizeof to);
  is_new_ = false;
}

void IdChecks::require_none(std::uint64_t word) const {
  if (word == 0) return;
  const kernels::BadId bad = kernels::bad_id_of(word);
  const std::lock_guard lock(mutex_);
  refuse_id(uses_.at(static_cast<std::size_t>(bad.check)), bad.position, bad.id);
}

void IdChecks::reset() {
  constexpr std::uint64_t kNone = 0;
  device::copy_bytes(device_, word_, &kNone, sizeof kNone);
}

}  // namespace lt::tensor
