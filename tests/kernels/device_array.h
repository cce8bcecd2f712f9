// Arrays on the CUDA device of the tests, and a check for the device.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "device/cuda.h"
#include "kernels/array.h"
#include "kernels/gemm.h"
#include "libtrain/device/device.h"
#include "test_main/catch.h"
#include "test_main/world.h"

namespace lt::test {

inline constexpr Device kGpu{DeviceType::cuda, 0};

// False, with a printed reason, without a device to compare with.
inline bool has_gpu() {
  static const std::string reason = device::cuda::why_not(kGpu.index);
  if (!reason.empty()) lt_test::skip("cuda:0 " + reason);
  return reason.empty();
}

inline CudaStream gpu_stream() { return Stream::compute(kGpu).cuda(); }

// The bits of i32 numbers, as an array that can be copied to the device.
inline Array as_array(const std::vector<std::int32_t>& numbers) {
  Array bits(DType::f32, static_cast<Size>(numbers.size()));
  std::memcpy(bits.data(), numbers.data(), numbers.size() * sizeof(std::int32_t));
  return bits;
}

// A copy of an array on the device.
class DeviceArray {
 public:
  explicit DeviceArray(const Array& from) : DeviceArray(from.bytes()) {
    device::cuda::copy(data(), from.data(), bytes_, gpu_stream());
    device::cuda::synchronize_stream(gpu_stream());
  }
  explicit DeviceArray(Size bytes)
      : bytes_(bytes), data_(device::cuda::allocate(kGpu.index, std::max<Size>(1, bytes)), [](void* block) {
          device::cuda::deallocate(kGpu.index, block);
        }) {}

  void* data() { return data_.get(); }
  void read(Array& to) const {
    device::cuda::copy(to.data(), data_.get(), bytes_, gpu_stream());
    device::cuda::synchronize_stream(gpu_stream());
  }

 private:
  Size bytes_;
  std::shared_ptr<void> data_;
};

// A contiguous result on the device; g.d is ignored.
inline Array gpu_matmul(kernels::Gemm g) {
  Array result(g.out, g.M * g.N);
  DeviceArray there(result);
  g.d = there.data();
  kernels::gemm(gpu_stream(), g);
  there.read(result);
  return result;
}

}  // namespace lt::test
