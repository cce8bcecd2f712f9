// Who holds how many bytes of a device. Every tensor is allocated for an owner; the ledger keeps live bytes and the
// high-water mark per device, counted in blocks of kAllocationAlignment bytes. The `meta` device counts the same
// bytes as a real one, which is how memory is known before a run.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "libtrain/device.h"
#include "libtrain/dtype.h"
#include "libtrain/timeline.h"

namespace lt {

enum class MemoryOwner : std::uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,
  communication,
  workspace,
  data,
  slack,  // of an arena: bytes that no block uses at the moment
};
inline constexpr int kMemoryOwners = 8;
inline constexpr std::array<std::string_view, kMemoryOwners> kMemoryOwnerNames = {
    "parameters", "gradients", "optimizer", "activations", "communication", "workspace", "data", "slack"};

// Every block starts at, and occupies, a multiple of this many bytes.
inline constexpr Size kAllocationAlignment = 128;

struct MemoryUse {
  std::array<Size, kMemoryOwners> by_owner{};
  Size total = 0;

  Size of(MemoryOwner owner) const { return by_owner[static_cast<std::size_t>(owner)]; }
};

// Bytes held now, and the breakdown at the moment of the highest total since the last reset.
MemoryUse memory_live(Device device);
MemoryUse memory_peak(Device device);
// The highest value that each owner reached on its own since the last reset, whenever that was.
MemoryUse memory_peak_by_owner(Device device);
// The high-water marks start again from what is live now.
void reset_memory_peak(Device device);

// Tensors that this thread allocates during the scope belong to `owner`; scopes nest. Outside: activations.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryOwner owner);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryOwner previous_;
};

// What runs on this thread, for messages about its allocations and for traces: "rms_norm", "reduce_scatter". The text
// is not copied and must outlive the scope.
class OperationScope {
 public:
  explicit OperationScope(std::string_view name);
  ~OperationScope();
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;
  static std::string_view current();

 private:
  std::string_view previous_;
  const SpanScope span_;
};

}  // namespace lt
