// Fuzzes safetensors files: the header, and every value of the tensors that it describes.
#include "checkpoints/hugging_face/safetensors.h"

#include <vector>

#include "fuzz/target.h"
#include "kernels/elementwise.h"

namespace lt::kernels {

// Replaces the conversion of the CPU kernels, which the target does not link. Only reads of the own dtype need none.
template <>
void convert(CpuStream, DType, void*, DType, const void*, Size, bool) {
  std::abort();
}

}  // namespace lt::kernels

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(fuzz::text_of(data, size));
  fuzz::read_or_refuse([&] {
    const lt::checkpoint::SafetensorsReader reader(file.path());
    for (const lt::checkpoint::SafetensorsEntry& tensor : reader.tensors()) {
      if (reader.find(tensor.name) == nullptr) std::abort();
      if (!tensor.dtype) continue;
      std::vector<std::byte> values(static_cast<std::size_t>(tensor.bytes));
      reader.read(tensor, 0, tensor.bytes / lt::dtype_bytes(*tensor.dtype), *tensor.dtype, values.data());
    }
  });
  return 0;
}
