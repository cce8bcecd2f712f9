// The tokens that `prepare` has made so far, in a folder from which a killed run goes on.
//
//   lock       held by the process that works here
//   tokens     little-endian uint16 or uint32
//   targets    a byte a token: 1 if it counts as a target (only with masks)
//   documents  uint64 a document: its tokens (only with packing)
//   state.json what was asked for, and how much of the files and of the inputs is done
//
// Invariant: what state.json counts is on disk. More may follow it in the files; it is cut off.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/document_reader.h"
#include "io/descriptor.h"

namespace lt::data {

struct SpoolShape {
  int width = 4;  // bytes a token
  bool has_targets = false, has_documents = false;
};

struct SpoolState {
  InputPosition position;
  Size tokens = 0, documents = 0, masked = 0, bytes = 0, conversations = 0, untrained = 0;
  std::uint32_t highest = 0;  // token
  UnusedFields unused{};
};

class Spool {
 public:
  // Opens the folder, or makes it. Goes on from the state in it if that is of the same `identity`, else begins anew.
  // An empty identity is never the same. Before it begins anew it calls `on_new`, which may throw; nothing is lost
  // then. Throws DataError for what the system refuses, and UsageError if another process works there.
  Spool(const std::string& folder, std::string identity, const SpoolShape& shape, const std::function<void()>& on_new);

  bool resumed() const { return resumed_; }
  // Whether a later process can go on from a state that is on disk.
  bool can_be_resumed() const { return !identity_.empty() && (resumed_ || saved_); }
  const SpoolState& state() const { return state_; }
  void append(const EncodedPiece& piece);
  // From now on a killed run goes on from this position.
  void save(const InputPosition& position);

  // Read what was appended: tokens [begin, begin + to.size()), whether they are targets, and the tokens of documents.
  void read_tokens(Size begin, std::span<std::uint32_t> to) const;
  void read_targets(Size begin, std::span<std::uint8_t> to) const;
  void read_documents(Size begin, std::span<std::uint64_t> to) const;

 private:
  std::string path(const char* name) const { return folder_ + "/" + name; }
  bool load();
  // Throws DataError with the system's reason unless done.
  void require(bool done, const char* name, const char* what) const;
  void read(const io::Descriptor& file, const char* name, Size offset, void* to, std::size_t bytes) const;

  std::string folder_, identity_;
  SpoolShape shape_;
  SpoolState state_;
  bool resumed_ = false, saved_ = false;
  io::Descriptor lock_, tokens_, targets_, documents_;
  std::vector<unsigned char> bytes_;
};

}  // namespace lt::data
