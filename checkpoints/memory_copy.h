// A rank's state in a file of shared memory, which outlives the process. Two such files take turns, so that one is
// whole at any moment: a file is unsealed, filled, sealed with its step, and then gets its checksum. A copy that was
// sealed before its process was killed is whole. The checksum finds what changed the memory since; a copy without one
// counts, because its process had no time for it.
// docs/checkpoint-format.md has the format.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/shard_map.h"

namespace lt::checkpoint {

// Whose state it is. A start takes copies of its own run and rank count alone.
struct CopyOwner {
  std::string run;  // at most 63 bytes
  int rank = 0, ranks = 1;
  bool operator==(const CopyOwner&) const = default;
};

// The part of the state that is no tensor.
struct CopySeal {
  Size step = 0;               // 0: not sealed
  std::uint64_t timeline = 0;  // of the starts that went on from each other's memory
  Size samples = 0, data_tokens = 0;
  double loss_scale = 1;
  Size loss_scale_steps = 0, skipped = 0;
};
// A timeline as run.json has it, in hexadecimal digits; 0 of none, which no copy has.
std::uint64_t timeline_number(const std::string& digits);
// As one line of text, and back. Throws DataError.
std::string to_text(const CopySeal& seal);
CopySeal seal_of(const std::string& text);

inline constexpr Size kCopyAlignment = 256;            // bytes; as engines align parameters in f32
inline constexpr Size kMostCopyBytes = Size{1} << 46;  // more is no copy

// Elements [begin, end) of a parameter's state, at `offset` bytes of the payload.
struct CopyRange {
  std::string parameter;
  StateKind kind;
  Size begin, end, offset;
};

// The ranges one after the other, each at a multiple of kCopyAlignment bytes.
std::vector<CopyRange> copy_layout(const std::vector<StateRange>& ranges);
// The size of a payload; at least one block.
Size payload_bytes_of(const std::vector<CopyRange>& layout);
// A line a range, and back; none where the text is no layout, or beyond a payload of that size.
std::string to_text(const std::vector<CopyRange>& layout);
std::optional<std::vector<CopyRange>> layout_of(const std::string& text, Size payload_bytes = kMostCopyBytes);

// The folder of a run's copies on this host: /dev/shm/libtrain-<run>.
std::filesystem::path memory_folder(const std::string& run);
// Makes it, for this user alone. Throws DataError where it is somebody else's.
void make_memory_folder(const std::string& run);

class MemoryCopy {
 public:
  // Makes `file`, or takes one of the same owner and layout as it is. All of its memory is taken now, and no other
  // process can take the file while this object lives. Throws DataError.
  MemoryCopy(const std::filesystem::path& file, const CopyOwner& owner, const std::vector<CopyRange>& layout);
  // An existing file of this user; null where it is no copy.
  static std::unique_ptr<MemoryCopy> open(const std::filesystem::path& file);
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

// The copies of a run on this host, of whatever rank, by the name of their file.
std::map<std::string, std::unique_ptr<MemoryCopy>> memory_copies(const std::string& run);
// Whether a process on this host is writing any of them.
bool is_memory_in_use(const std::string& run);
// Removes them and their folder; returns the bytes that were given back. Throws DataError.
Size remove_memory_copies(const std::string& run);

}  // namespace lt::checkpoint
