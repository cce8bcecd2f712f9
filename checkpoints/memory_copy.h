// A rank's state in a file of shared memory, which outlives the process. Two such files take turns, so that one is
// whole at any moment: a file is unsealed, filled, sealed with its step, and then gets its checksum. A copy that was
// sealed before its process was killed is whole. The checksum finds what changed the memory since; a copy without one
// counts, because its process had no time for it.
// docs/checkpoint-format.md has the format.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "copy_format.h"

namespace lt::checkpoint {

// Whose state it is. A start takes copies of its own run and rank count alone.
struct CopyOwner {
  std::string run;  // at most 63 bytes
  int rank = 0, ranks = 1;
  bool operator==(const CopyOwner&) const = default;
};

// For who has too little memory.
inline constexpr const char* kWithoutMemory =
    "--checkpoint.memory_every=0 does without; --shm-size sets what a container has of /dev/shm";

class MemoryCopy {
 public:
  // Makes `file`, or takes one of the same owner and layout as it is. All of its memory is taken now, and no other
  // process can take the file while this object lives. Throws DataError.
  MemoryCopy(const std::filesystem::path& file, const CopyOwner& owner, const std::vector<CopyRange>& layout);
  // An existing file of this user; null where it is no copy.
  static std::unique_ptr<MemoryCopy> open(const std::filesystem::path& file);
  // Whether this or another process made or took it as its own, and lives.
  static bool is_being_written(const std::filesystem::path& file);
  ~MemoryCopy();
  MemoryCopy(const MemoryCopy&) = delete;
  MemoryCopy& operator=(const MemoryCopy&) = delete;

  const CopyOwner& owner() const { return owner_; }
  const std::vector<CopyRange>& layout() const { return layout_; }
  std::byte* payload() const { return payload_; }
  Size payload_bytes() const { return payload_bytes_; }

  // The payload is about to change.
  void unseal();
  // The payload is whole.
  void seal(const CopySeal& seal);
  CopySeal sealed() const;
  // Computes the checksum of the payload. Gives up where the copy is unsealed meanwhile or stop() says so, which it
  // asks every few MiB.
  void add_checksum(const std::function<bool()>& stop);
  // False for a copy that is not sealed, or whose checksum is not that of the payload.
  bool is_as_sealed() const;

 private:
  struct Header;
  struct Mapping;
  explicit MemoryCopy(std::unique_ptr<Mapping> mapping);
  Header& header() const;
  // None where the seal is no longer that of `step`, or stop() says so.
  std::optional<std::uint32_t> checksum(Size step, const std::function<bool()>& stop) const;

  std::unique_ptr<Mapping> mapping_;
  CopyOwner owner_;
  std::vector<CopyRange> layout_;
  std::byte* payload_ = nullptr;
  Size payload_bytes_ = 0;
};

}  // namespace lt::checkpoint
