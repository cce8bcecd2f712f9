// The tokens that `prepare` has made so far, in a folder from which `prepare` continues after it was killed.
//
//   lock       held by the process that works here
//   tokens     little-endian uint16 or uint32
//   targets    one byte for each token: 1 if it is a target (only with masks)
//   documents  one uint64 for each document: its tokens (only with packing)
//   state.json the identity of the request, and how much of the files and of the inputs is done
//
// Invariant: everything that state.json counts is on disk. Bytes after it in the files are cut off.
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
  std::uint32_t highest = 0;  // highest token
  UnusedFields unused{};
};

class Spool {
 public:
  // Opens or creates the folder. Continues from its state if that has the same `identity`; an empty identity never
  // matches. Otherwise calls `on_new`, then deletes the state and starts over; if `on_new` throws, the state is kept.
  // Throws DataError for errors of the system, UsageError if another process uses the folder.
  Spool(const std::string& folder, std::string identity, const SpoolShape& shape, const std::function<void()>& on_new);

  bool resumed() const { return resumed_; }
  // True if a later process can continue from a state on disk.
  bool can_be_resumed() const { return !identity_.empty() && (resumed_ || saved_); }
  const SpoolState& state() const { return state_; }
  void append(const EncodedPiece& piece);
  // Writes the state. A later process then continues from this position.
  void save(const InputPosition& position);

  // Read appended tokens [begin, begin + to.size()), their targets (1: a target), and the lengths of documents in
  // tokens.
  void read_tokens(Size begin, std::span<std::uint32_t> to) const;
  void read_targets(Size begin, std::span<std::uint8_t> to) const;
  void read_documents(Size begin, std::span<std::uint64_t> to) const;

 private:
  std::string path(const char* name) const { return folder_ + "/" + name; }
  bool load();
  // Throws DataError with errno's text unless `done`.
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
