// The way of values between files and tensors.
#include "transfer.h"

#include <algorithm>
#include <cstring>

#include "core/cuda.h"
#include "layout.h"
#include "libtrain/error.h"

namespace lt::checkpoint {

Device device_of(const std::vector<StateRange>& ranges) {
  const auto holds_values = [](const StateRange& range) { return range.begin < range.end; };
  const auto first = std::find_if(ranges.begin(), ranges.end(), holds_values);
  return first == ranges.end() ? kCpu : first->values.device();
}

Transfer::Transfer(Device device) : device_(device), stream_(device) {
  if (in_place()) return;
  follow_compute();
  for (Pinned& pinned : pinned_) pinned.memory = cuda::allocate_pinned(device.index, kBlockBytes);
}

Transfer::~Transfer() {
  try {
    finish();
  } catch (const Error&) {  // whoever used it has met the same
  }
}

float* Transfer::buffer() {
  if (in_place()) {
    own_.resize(static_cast<std::size_t>(kBlockElements));
    return own_.data();
  }
  turn_ = 1 - turn_;
  return current();
}

void Transfer::send(float* to, const float* from, Size count) {
  const Size bytes = count * Size{sizeof(float)};
  if (in_place()) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  cuda::copy(to, from, bytes, stream_.cuda());
  pinned_[turn_].done.record(stream_);
}

void Transfer::fetch(const float* from, Size count) {
  turn_ = 1 - turn_;
  cuda::copy(pinned_[turn_].memory.get(), from, count * Size{sizeof(float)}, stream_.cuda());
  pinned_[turn_].done.record(stream_);
}

float* Transfer::current() {
  pinned_[turn_].done.synchronize();
  return static_cast<float*>(pinned_[turn_].memory.get());
}

void Transfer::follow_compute() {
  Event now;
  now.record(Stream::compute(device_));
  stream_.wait(now);
}

void Transfer::for_each_block(const Tensor& given, const std::function<void(const float*, Size)>& visit) {
  Tensor values = given;
  if (!given.is_contiguous()) {
    values = Tensor::empty(given.shape(), given.dtype(), device_);
    copy(values, given);
    if (!in_place()) follow_compute();
  }
  const auto* const from = values.data<float>();
  const Size elements = values.elements();
  const auto count_from = [&](Size at) { return std::min(kBlockElements, elements - at); };
  if (!in_place()) fetch(from, count_from(0));
  for (Size at = 0; at < elements; at += kBlockElements) {
    const float* const block = in_place() ? from + at : current();
    // The other buffer's block was visited in the turn before.
    if (const Size next = at + kBlockElements; !in_place() && next < elements) fetch(from + next, count_from(next));
    visit(block, count_from(at));
  }
}

void Transfer::finish() {
  if (!in_place()) stream_.synchronize();
}

}  // namespace lt::checkpoint
