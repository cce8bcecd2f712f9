// The way of values from a file to a tensor.
#include "transfer.h"

#include <cstring>

#include "core/cuda.h"
#include "layout.h"

namespace lt::checkpoint {

Transfer::Transfer(Device device) : device_(device), stream_(device) {
  if (in_place()) return;
  Event before;
  before.record(Stream::compute(device));
  stream_.wait(before);
  for (Pinned& pinned : pinned_) pinned.memory = cuda::allocate_pinned(device.index, kBlockBytes);
}

Transfer::~Transfer() {
  if (!in_place()) stream_.synchronize();
}

float* Transfer::buffer() {
  if (in_place()) {
    own_.resize(static_cast<std::size_t>(kBlockBytes) / sizeof(float));
    return own_.data();
  }
  turn_ = 1 - turn_;
  pinned_[turn_].sent.synchronize();
  return static_cast<float*>(pinned_[turn_].memory.get());
}

void Transfer::send(float* to, const float* from, Size count) {
  const Size bytes = count * Size{sizeof(float)};
  if (in_place()) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  cuda::copy(to, from, bytes, stream_.cuda());
  pinned_[turn_].sent.record(stream_);
}

void Transfer::finish() {
  if (!in_place()) stream_.synchronize();
}

}  // namespace lt::checkpoint
