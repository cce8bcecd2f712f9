// Mask files: one bit for each token, 1 if the token is a target. docs/reference/data-files.md describes the format.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/data_file.h"

namespace lt::data {

class MaskFile {
 public:
  // Throws DataError if the file is not a complete mask of `tokens` tokens.
  MaskFile(const std::string& path, Size tokens);

  // Sets targets[i] = kIgnoredTarget if the bit of token begin + i is 0, for i in [0, count).
  void apply(Size begin, Size count, std::int32_t* targets) const;
  // True if one of the tokens [begin, end) is a target. Reads up to the first one.
  bool counts_any(Size begin, Size end) const;
  std::uint64_t digest(std::uint64_t before) const { return file_.digest(before); }

 private:
  DataFile file_;
};

// Returns NAME.mask for NAME.bin; nullopt for other names, or if there is no mask. Throws DataError for a dangling
// link.
std::optional<std::string> mask_beside(const std::string& token_file);

}  // namespace lt::data
