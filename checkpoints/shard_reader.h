// Reading one rank's file. Payloads are read where the manifest says that they lie; no part of the file is parsed, so
// nothing that stands in it can do harm.
#pragma once

#include <filesystem>
#include <string>

#include "files.h"
#include "manifest.h"
#include "transfer.h"

namespace lt::checkpoint {

class ShardReader {
 public:
  // Throws DataError where the file is missing, is no file, or differs in size from the manifest.
  ShardReader(const std::filesystem::path& folder, const FileEntry& file);

  // out[0..) = elements [begin, end) of the parameter, which the dataset holds; `out` lies on the transfer's device.
  // Checks the blocks that it touches.
  void read(const DatasetEntry& dataset, Size begin, Size end, float* out, Transfer& transfer);
  // Reads one block and checks it; `values` has room for a block.
  void read_block(const DatasetEntry& dataset, std::size_t block, float* values);
  // Reads what is no payload, and checks it and, with the manifest's checksums of the payloads, the file as a whole.
  void check_metadata();

 private:
  std::filesystem::path path_;
  const FileEntry& entry_;
  OpenFile file_;
};

}  // namespace lt::checkpoint
