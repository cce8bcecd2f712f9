// Structs in device memory that kernels read and write without the host.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "libtrain/memory/memory.h"
#include "libtrain/tensor/tensor.h"

namespace lt::tensor {

// `count` values of T, initially zero. The ledger (bytes by owner) counts them as MemoryOwner::workspace. Copies share
// the values.
template <class T>
class DeviceValue {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(float) == 0);
  static constexpr Size kWords = sizeof(T) / sizeof(float);

 public:
  DeviceValue() = default;  // holds no value
  explicit DeviceValue(Device device, Size count = 1) {
    const MemoryScope owner(MemoryOwner::workspace);
    storage_ = Tensor::zeros({count * kWords}, DType::f32, device);
  }

  bool defined() const { return storage_.defined(); }
  // Returns a pointer into device memory for kernels; null if no value is held.
  T* get() const { return defined() ? static_cast<T*>(storage_.data_or_null()) : nullptr; }
  // The values as a flat tensor, for copies.
  const Tensor& storage() const { return storage_; }
  // Returns a view [1] of one member of the first value.
  Tensor member(float T::*which) const {
    static const T example{};
    const auto* const begin = reinterpret_cast<const std::byte*>(&example);
    const auto* const at = reinterpret_cast<const std::byte*>(&(example.*which));
    return storage_.narrow(0, (at - begin) / static_cast<Size>(sizeof(float)), 1);
  }

  // Returns the first value. Waits for the device.
  T read() const {
    const std::vector<float> words = storage_.to_vector<float>();
    T value;
    std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
    return value;
  }
  void write(const T& value) const {
    std::vector<float> words(static_cast<std::size_t>(kWords));
    std::memcpy(words.data(), &value, sizeof value);
    copy(storage_.narrow(0, 0, kWords), Tensor::from(words, {kWords}));
  }

 private:
  Tensor storage_;
};

}  // namespace lt::tensor
