// Shared by the NCCL tests: groups of ranks with one CUDA device each, and values on these devices. The tests are
// skipped if there are fewer devices than ranks.
#pragma once

#include <string>
#include <vector>

#include "comm/values.h"
#include "device/cuda.h"
#include "test_main/catch.h"
#include "test_main/world.h"

namespace lt_test {

inline lt::Device gpu() { return {lt::DeviceType::cuda, world().info().local_rank}; }

// Why these tests cannot run; empty if they can. The same on all ranks.
inline const std::string& why_skipped() {
  static const std::string reason = [] {
    const std::string why = why_not(gpu());
    return why.empty() && world().size() == 1 ? "NCCL wants at least two ranks" : why;
  }();
  return reason;
}

inline bool skipped() {
  if (why_skipped().empty()) return false;
  skip(why_skipped());
  SUCCEED();
  return true;
}

inline const lt::Group& cpu() { return world().group(); }

inline lt::Group nccl() { return cpu().with_nccl(gpu()); }

inline void copy_bytes(const lt::Tensor& to, const lt::Tensor& from) {
  const lt::Stream stream = lt::Stream::compute(gpu());
  if (to.bytes() > 0) lt::device::cuda::copy(to.data(), from.data(), to.bytes(), stream.cuda());
  stream.synchronize();
}

inline lt::Tensor on_device(const lt::Tensor& values) {
  const lt::Tensor result = lt::Tensor::empty(values.shape(), values.dtype(), gpu());
  copy_bytes(result, values);
  return result;
}

inline std::vector<double> values_of(const lt::Tensor& tensor) {
  if (tensor.device().type == lt::DeviceType::cpu) return tensor.to_vector<double>();
  const lt::Tensor result = lt::Tensor::empty(tensor.shape(), tensor.dtype());
  copy_bytes(result, tensor);
  return result.to_vector<double>();
}

inline lt::Tensor part_of(const lt::Tensor& full) {
  const lt::Size n = full.elements();
  return full.narrow(0, lt::Group::part_begin(n, world().size(), world().rank()),
                     lt::Group::part_size(n, world().size(), world().rank()));
}
inline lt::Tensor like(const lt::Tensor& tensor, double value) {
  return tensor_of(std::vector<double>(static_cast<std::size_t>(tensor.elements()), value), tensor.dtype());
}

// kSizes, most of them uneven, plus sizes divisible by 1 to 8 ranks. Copies between GPUs and sums of NCCL take only
// divisible sizes.
inline std::vector<lt::Size> sizes() {
  std::vector<lt::Size> result = kSizes;
  result.insert(result.end(), {840, 840 * 128, 840 * 1024});
  return result;
}

}  // namespace lt_test
