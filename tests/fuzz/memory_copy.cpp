// Fuzzes copies of a state in shared memory. An input is the header's 256 bytes and the layout; the payload is zeros.
#include "checkpoints/memory/memory_copy.h"

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHeader = 256, kPage = 4096;
  std::string bytes = fuzz::text_of(data, std::min(size, kHeader));
  bytes.resize(kPage);
  if (size > kHeader) bytes += fuzz::text_of(data + kHeader, size - kHeader);
  bytes.resize((bytes.size() / kPage + 2) * kPage);
  const fuzz::File file(bytes);
  if (const auto copy = lt::checkpoint::MemoryCopy::open(file.path())) {
    copy->is_as_sealed();
    int sum = 0;
    for (const lt::checkpoint::CopyRange& range : copy->layout()) {
      for (lt::Size i = range.bytes() - 1; i >= 0; --i) sum += int(copy->payload()[range.offset + i]);
    }
    if (sum < 0) std::abort();
  }
  return 0;
}
