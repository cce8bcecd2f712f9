// Runs a kernel on the CPU and on a CUDA device over the same inputs, and compares the results.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "kernels/device_array.h"
#include "kernels/inputs.h"
#include "kernels/tolerance.h"
#include "libtrain/kernels/ignored_target.h"

namespace lt::test {

inline constexpr Size kCounts[] = {0, 1, 7, 1024, 100'003};

struct Rows {
  Size R, C;
};
inline constexpr Rows kRows[] = {{1, 1}, {3, 33}, {200, 100}, {1030, 67}, {2049, 768}, {301, 1600}, {67, 4096}};

class OnBoth {
 public:
  OnBoth() = default;
  OnBoth(const OnBoth&) = delete;
  OnBoth& operator=(const OnBoth&) = delete;

  // Adds an array and returns its index for run(). Outputs hold random values first, so that missing writes show.
  int array(DType dtype, Size count, double range = 1) {
    return add(random_array(dtype, count, static_cast<std::uint64_t>(entries_.size()) + 1, range));
  }
  int constant(DType dtype, Size count, double value) { return add(Array(dtype, count, value)); }
  int add(Array values) {
    entries_.push_back({std::move(values), {}, true});
    return static_cast<int>(entries_.size()) - 1;
  }
  // Requires the same bits in the results.
  int exact(int index) {
    entries_[static_cast<std::size_t>(index)].bitwise = true;
    return index;
  }
  // Compares each result relative to its own size, but at least to a tenth of the mean of its row of C.
  void by_element(int index, Size C) { entries_[static_cast<std::size_t>(index)].by_element = C; }
  // Compares relative to the largest element of its row of C.
  void by_row(int index, Size C) { entries_[static_cast<std::size_t>(index)].by_row = C; }
  // A struct of four-byte words.
  template <class T>
  int words(const T& value) {
    Array bits(DType::f32, static_cast<Size>(sizeof value / sizeof(float)));
    std::memcpy(bits.data(), &value, sizeof value);
    return exact(add(std::move(bits)));
  }
  int ids(Size count, Size limit) {
    return ids(random_ids(count, limit, static_cast<std::uint64_t>(entries_.size()) + 1));
  }
  // Given i32 inputs.
  int ids(const std::vector<std::int32_t>& values) {
    const int index = add(as_array(values));
    entries_.back().compared = false;
    return index;
  }
  // Makes element `at` of ids an ignored target.
  void ignore(int index, Size at) {
    std::memcpy(static_cast<std::byte*>(entries_[static_cast<std::size_t>(index)].host.data()) + at * 4,
                &kIgnoredTarget, 4);
  }

  // kernel(stream, at), where at(index) is the array's memory on the stream's device. Then every array is compared.
  template <class Kernel>
  void run(Kernel&& kernel, double factor = 2) {
    for (Entry& entry : entries_) entry.device.emplace(entry.host);
    kernel(CpuStream{}, [this](int index) { return entries_[static_cast<std::size_t>(index)].host.data(); });
    kernel(gpu_stream(), [this](int index) { return entries_[static_cast<std::size_t>(index)].device->data(); });
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      if (!entry.compared) continue;
      Array result(entry.host.dtype(), entry.host.count());
      entry.device->read(result);
      CAPTURE(i, dtype_name(result.dtype()), result.count());
      if (entry.bitwise) CHECK(result.same_bits(entry.host));
      if (entry.bitwise) continue;
      if (entry.by_element > 0 || entry.by_row > 0) {
        const double error = entry.by_element > 0 ? error_by_element(result, entry.host.values(), entry.by_element)
                                                  : error_by_row(result, entry.host.values(), entry.by_row);
        CHECK(error <= factor * tolerance(result.dtype()));
        continue;
      }
      // Both are within the tolerance of the exact numbers.
      CHECK(error_of(result, entry.host.values()) <= factor * tolerance(result.dtype()));
    }
  }

 private:
  struct Entry {
    Array host;
    std::optional<DeviceArray> device;
    bool compared, bitwise = false;
    Size by_element = 0, by_row = 0;
  };
  std::deque<Entry> entries_;
};

// Calls f(dtype) for every floating dtype if there is a device.
template <class F>
void for_floats(F&& f) {
  if (!has_gpu()) return;
  for (const DType dtype : kFloats) f(dtype);
}

}  // namespace lt::test
