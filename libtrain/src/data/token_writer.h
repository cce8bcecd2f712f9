// Writes token files and their masks (docs/reference/data-files.md has both formats).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"
#include "libtrain/dtype.h"

namespace lt::data {

// Writes one token file of a given length, and its mask.
class TokenFileWriter {
 public:
  // `stem`: the path without .bin. `narrow`: every token is below 65536. Throws DataError if the count does not fit in
  // a header.
  TokenFileWriter(const std::string& stem, Size tokens, bool narrow, bool may_mask);

  // Appends tokens. With `may_mask`, `targets` has 1 for each token that is a target, else 0; empty: all are targets.
  void write(std::span<const std::uint32_t> tokens, std::span<const std::uint8_t> targets);
  Size tokens_left() const { return left_; }
  // Writes all bytes to disk and returns the files; the mask only if a token is not a target. The caller must commit
  // each file.
  std::vector<io::PendingFile*> finish();
  // The paths of what finish() returned.
  std::vector<std::string> paths() const;
  Size masked() const { return masked_; }

 private:
  void flush_mask();

  std::string stem_;
  bool narrow_;
  Size left_;
  io::PendingFile tokens_;
  std::optional<io::PendingFile> mask_;
  Size masked_ = 0;
  unsigned char bits_ = 0;  // the mask's incomplete last byte
  int bit_ = 0;
  std::vector<unsigned char> mask_bytes_;
};

// Writes the tokens of one kind ("train", "val") to files of given lengths: train.bin, train-00001.bin, ...
class TokenFilesWriter {
 public:
  TokenFilesWriter(const std::string& folder, const std::string& kind, const std::vector<Size>& lengths, bool narrow,
                   bool may_mask);

  void write(std::span<const std::uint32_t> tokens, std::span<const std::uint8_t> targets);
  std::vector<io::PendingFile*> finish();
  std::vector<std::string> paths() const;
  Size masked() const;

 private:
  std::vector<std::unique_ptr<TokenFileWriter>> files_;
  std::size_t at_ = 0;
};

}  // namespace lt::data
