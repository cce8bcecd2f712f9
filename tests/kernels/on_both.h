// A kernel on the CPU and on a CUDA device over the same inputs, and the results held against each other.
#pragma once

#include <deque>
#include <string>

#include "core/cuda.h"
#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "libtrain/device.h"
#include "test_main/catch.h"

namespace lt::test {

inline constexpr Device kGpu{DeviceType::cuda, 0};

class OnBoth {
 public:
  OnBoth() = default;
  OnBoth(const OnBoth&) = delete;
  OnBoth& operator=(const OnBoth&) = delete;
  ~OnBoth() {
    for (Entry& entry : entries_) cuda::deallocate(0, entry.device);
  }

  // Numbers of an array, for run(). Outputs hold random values first, so that what is not written is seen.
  int array(DType dtype, Size count, double range = 1) {
    return add(random_array(dtype, count, static_cast<std::uint64_t>(entries_.size()) + 1, range));
  }
  int constant(DType dtype, Size count, double value) { return add(Array(dtype, count, value)); }
  int add(Array values) {
    entries_.push_back({std::move(values), nullptr, true});
    return static_cast<int>(entries_.size()) - 1;
  }
  // Its results are to be the same bits.
  int exact(int index) {
    entries_[static_cast<std::size_t>(index)].bitwise = true;
    return index;
  }
  // A struct of four-byte words.
  template <class T>
  int words(const T& value) {
    Array bits(DType::f32, static_cast<Size>(sizeof value / sizeof(float)));
    std::memcpy(bits.data(), &value, sizeof value);
    return exact(add(std::move(bits)));
  }
  int ids(Size count, Size limit) {
    const auto values = random_ids(count, limit, static_cast<std::uint64_t>(entries_.size()) + 1);
    Array bits(DType::f32, count);
    std::memcpy(bits.data(), values.data(), static_cast<std::size_t>(count) * sizeof(std::int32_t));
    const int index = add(std::move(bits));
    entries_.back().compared = false;
    return index;
  }

  // kernel(stream, at), where at(index) is the array's memory on the stream's device. Then every array is compared.
  template <class Kernel>
  void run(Kernel&& kernel, double factor = 2) {
    const Stream stream = Stream::compute(kGpu);
    for (Entry& entry : entries_) {
      entry.device = cuda::allocate(0, std::max<Size>(1, entry.host.bytes()));
      cuda::copy(entry.device, entry.host.data(), entry.host.bytes(), stream.cuda());
    }
    stream.synchronize();
    kernel(CpuStream{}, [this](int index) { return entries_[static_cast<std::size_t>(index)].host.data(); });
    kernel(stream.cuda(), [this](int index) { return entries_[static_cast<std::size_t>(index)].device; });
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      if (!entry.compared) continue;
      Array result(entry.host.dtype(), entry.host.count());
      cuda::copy(result.data(), entry.device, result.bytes(), stream.cuda());
      stream.synchronize();
      CAPTURE(i, dtype_name(result.dtype()), result.count());
      if (entry.bitwise) CHECK(result.same_bits(entry.host));
      if (entry.bitwise) continue;
      // Both are within the tolerance of the exact numbers.
      CHECK(error_of(result, entry.host.values()) <= factor * tolerance(result.dtype()));
    }
  }

 private:
  struct Entry {
    Array host;
    void* device;
    bool compared, bitwise = false;
  };
  std::deque<Entry> entries_;
};

// False, with the reason in the output, where there is no device to compare with.
inline bool has_gpu() {
  const std::string reason = cuda::why_not(0);
  if (reason.empty()) return true;
  WARN("skipped: cuda:0 " + reason);
  return false;
}

// f(dtype) for every floating dtype, where there is a device.
template <class F>
void for_floats(F&& f) {
  if (!has_gpu()) return;
  for (const DType dtype : kFloats) f(dtype);
}

}  // namespace lt::test
