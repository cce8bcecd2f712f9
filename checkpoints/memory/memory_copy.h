// A copy of a rank's state in a file of shared memory, which outlives the process. Two such files alternate, so that
// one is whole at any moment: a file is unsealed, filled, sealed with its step, and then given its checksum. A copy
// that was sealed before its process was killed is whole. The checksum detects later changes to the memory. A sealed
// copy without a checksum is valid too: its process was killed before it had computed one.
// docs/reference/checkpoint-format.md describes the format.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/memory/copy_format.h"

namespace lt::checkpoint {

// The owner of the state. A start takes only copies of its own run and rank count.
struct CopyOwner {
  std::string run;  // at most 63 bytes
  int rank = 0, ranks = 1;
  bool operator==(const CopyOwner&) const = default;
};

// The hint in errors about too little memory.
inline constexpr const char* kWithoutMemory =
    "--checkpoint.memory_every=0 disables the copies; --shm-size sets the size of a container's /dev/shm";

class MemoryCopy {
 public:
  // Creates `file`, or reuses an existing one with the same owner and layout. Allocates all of its memory now. No other
  // process can take the file during this object's lifetime. Throws DataError.
  MemoryCopy(const std::filesystem::path& file, const CopyOwner& owner, const std::vector<CopyRange>& layout);
  // Opens an existing file of this user. Returns null if it is not a copy.
  static std::unique_ptr<MemoryCopy> open(const std::filesystem::path& file);
  // True if a copy of this owner and layout could reuse the file.
  static bool fits(const std::filesystem::path& file, const CopyOwner& owner, const std::vector<CopyRange>& layout);
  // True if a live process, this one or another, created or reused the file.
  static bool is_being_written(const std::filesystem::path& file);
  ~MemoryCopy();
  MemoryCopy(const MemoryCopy&) = delete;
  MemoryCopy& operator=(const MemoryCopy&) = delete;

  const CopyOwner& owner() const { return owner_; }
  const std::vector<CopyRange>& layout() const { return layout_; }
  std::byte* payload() const { return payload_; }
  Size payload_bytes() const { return payload_bytes_; }

  // The caller must call it before the payload changes.
  void unseal();
  // The caller must call it once the payload is whole. Keeps `state`, the text of the program's state, with the
  // payload; it may be empty. Throws DataError if there is no memory for it.
  void seal(const CopySeal& seal, const std::string& state = {});
  CopySeal sealed() const;
  // Returns the text given to seal(). Throws DataError if it has changed since.
  std::string state() const;
  // Computes the checksum of the payload. Stops early if the copy is unsealed or if stop(), called every few MiB,
  // returns true.
  void add_checksum(const std::function<bool()>& stop);
  // Returns false if the copy is not sealed or a checksum does not match: of the payload, or of state().
  bool is_as_sealed() const;

 private:
  struct Header;
  struct Mapping;
  MemoryCopy(std::filesystem::path path, std::unique_ptr<Mapping> mapping);
  Header& header() const;
  // The place of state() in the file: behind the payload, outside the mapping.
  Size state_offset() const;
  // Returns nullopt if the text has changed since it was sealed.
  std::optional<std::string> read_state() const;
  // Returns nullopt if the seal's step is no longer `step` or stop() returns true.
  std::optional<std::uint32_t> checksum(Size step, const std::function<bool()>& stop) const;

  std::filesystem::path path_;
  std::unique_ptr<Mapping> mapping_;
  CopyOwner owner_;
  std::vector<CopyRange> layout_;
  std::byte* payload_ = nullptr;
  Size payload_bytes_ = 0;
};

}  // namespace lt::checkpoint
