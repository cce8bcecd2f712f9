// Allocates host memory, and wraps it as tensors, outside of the ledger.
#include "tensor/host_memory.h"

#include <utility>

#include "device/cuda.h"
#include "memory/allocation.h"

namespace lt::tensor {
namespace {

// Hands out one given block, once.
class GivenMemory final : public memory::BlockSource {
 public:
  explicit GivenMemory(std::shared_ptr<void> memory) : memory_(std::move(memory)) {}
  Block allocate(Size, MemoryOwner) override { return {static_cast<std::byte*>(memory_.get()), 0}; }
  void release(std::size_t) noexcept override {}

 private:
  std::shared_ptr<void> memory_;
};

}  // namespace

std::shared_ptr<void> host_memory(Device device, Size bytes) {
  if (device.type == DeviceType::cuda) return device::cuda::allocate_pinned(device.index, bytes);
  return std::shared_ptr<std::byte[]>(new std::byte[static_cast<std::size_t>(bytes)]());
}

Tensor tensor_over(std::shared_ptr<void> memory, Size elements, DType dtype) {
  const MemoryScope owner(MemoryOwner::data);
  const memory::AllocationScope given(std::make_shared<GivenMemory>(std::move(memory)), kCpu);
  return Tensor::empty({elements}, dtype, kCpu);
}

}  // namespace lt::tensor
