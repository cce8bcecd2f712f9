// Moves values between files and tensors.
#include "checkpoints/format/transfer.h"

#include <algorithm>
#include <cstring>

#include "checkpoints/format/layout.h"
#include "device/cuda.h"
#include "libtrain/error.h"
#include "tensor/host_memory.h"

namespace lt::checkpoint {

Device device_of(const std::vector<StateRange>& ranges) {
  const auto holds_values = [](const StateRange& range) { return range.begin < range.end; };
  const auto first = std::find_if(ranges.begin(), ranges.end(), holds_values);
  return first == ranges.end() ? kCpu : first->values.device();
}

Transfer::Transfer(Device device) : device_(device), stream_(device) {
  if (in_place()) return;
  follow_compute();
  for (Pinned& pinned : pinned_) pinned.memory = device::cuda::allocate_pinned(device.index, kBlockBytes);
}

Transfer::~Transfer() {
  try {
    finish();
  } catch (const Error&) {  // the caller has met the same error
  }
}

void* Transfer::buffer() {
  if (in_place()) {
    if (own_ == nullptr) own_ = tensor::host_memory(kCpu, kBlockBytes);
    return own_.get();
  }
  turn_ = 1 - turn_;
  return current();
}

void Transfer::send(void* to, const void* from, Size bytes) {
  if (in_place()) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  device::cuda::copy(to, from, bytes, stream_.cuda());
  pinned_[turn_].done.record(stream_);
}

void Transfer::fetch(const std::byte* from, Size bytes) {
  turn_ = 1 - turn_;
  device::cuda::copy(pinned_[turn_].memory.get(), from, bytes, stream_.cuda());
  pinned_[turn_].done.record(stream_);
}

void* Transfer::current() {
  pinned_[turn_].done.synchronize();
  return pinned_[turn_].memory.get();
}

void Transfer::follow_compute() {
  Event now;
  now.record(Stream::compute(device_));
  stream_.wait(now);
}

void Transfer::for_each_block(const Tensor& given, const std::function<void(const void*, Size)>& visit) {
  Tensor values = given;
  if (!given.is_contiguous()) {
    values = Tensor::empty(given.shape(), given.dtype(), device_);
    copy(values, given);
    if (!in_place()) follow_compute();
  }
  const auto* const from = static_cast<const std::byte*>(values.data());
  const Size bytes = values.bytes();
  const auto bytes_from = [&](Size at) { return std::min(kBlockBytes, bytes - at); };
  if (!in_place()) fetch(from, bytes_from(0));
  for (Size at = 0; at < bytes; at += kBlockBytes) {
    const void* const block = in_place() ? from + at : current();
    // The other buffer's block was visited in the previous iteration.
    if (const Size next = at + kBlockBytes; !in_place() && next < bytes) fetch(from + next, bytes_from(next));
    visit(block, bytes_from(at));
  }
}

void Transfer::finish() {
  if (!in_place()) stream_.synchronize();
}

}  // namespace lt::checkpoint
