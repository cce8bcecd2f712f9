// A rank's state in a file of shared memory, which outlives the process. Two such files take turns, so that one is
// whole at any moment: it is unsealed, filled, sealed with its step, and then gets its checksum. What a process that
// was killed had sealed is whole, with or without the checksum; with it, whatever changed the memory since is found.
//
//   byte 0    header: the run, the rank, sizes, seal, checksum
//   4096      layout: a line a range, "<kind> <begin> <end> <offset> <parameter>", offsets in bytes of the payload
//   then, at a multiple of 4096, the payload: f32, little-endian
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/shard_map.h"

namespace lt::checkpoint {

// Whose state it is. A start takes copies of its own run and of as many ranks alone.
struct CopyOwner {
  std::string run;  // at most 63 bytes
  int rank = 0, ranks = 1;
  bool operator==(const CopyOwner&) const = default;
};

// What changes with the steps and is no tensor.
struct CopySeal {
  Size step = 0;  // 0: not sealed
  Size samples = 0;
  double loss_scale = 1;
  Size loss_scale_steps = 0, skipped = 0;
};

// Elements [begin, end) of a parameter's state, at `offset` bytes of the payload.
struct CopyRange {
  std::string parameter;
  StateKind kind;
  Size begin, end, offset;
};

// `bytes` of a payload for these ranges, one after the other; every range begins at a multiple of 128 bytes.
std::vector<CopyRange> copy_layout(const std::vector<StateRange>& ranges);
Size copy_bytes_of(const std::vector<CopyRange>& layout);

class MemoryCopy {
 public:
  // Makes `file`, or takes one of the same owner and layout as it is. All its memory is taken now. Throws DataError.
  MemoryCopy(const std::filesystem::path& file, const CopyOwner& owner, const std::vector<CopyRange>& layout);
  // An existing file, to be read; nothing where it is none, not of this user, or of another owner's rank or run.
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
  // It is whole.
  void seal(const CopySeal& seal);
  CopySeal sealed() const;
  // The checksum of the payload, made by the caller's thread; gives up where the copy is unsealed meanwhile, or stop()
  // says so.
  void add_checksum(const std::function<bool()>& stop);
  // False where there is a checksum and it is not that of the payload.
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
