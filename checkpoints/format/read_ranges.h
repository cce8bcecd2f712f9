// Reads ranges of parameters from the files of a checkpoint.
#pragma once

#include <filesystem>
#include <vector>

#include "checkpoints/format/manifest.h"
#include "checkpoints/format/transfer.h"

namespace lt::checkpoint {

// Elements [begin, end) of a parameter's state, to be written to out[0, end - begin), which lies on the transfer's
// device. Values of another dtype in the file are converted; conversion to a narrower dtype rounds to nearest.
struct RangeRequest {
  std::string parameter;
  std::string kind;
  Size begin, end;
  void* out;
  DType dtype = DType::f32;
};

// Fills every request. `manifest` must be the manifest of `folder`. One file is open at a time, and only the blocks
// that a request touches are read. Throws DataError if a parameter or kind is missing or a checksum does not match.
void read_ranges(const std::filesystem::path& folder, const Manifest& manifest,
                 const std::vector<RangeRequest>& requests, Transfer& transfer);

}  // namespace lt::checkpoint
