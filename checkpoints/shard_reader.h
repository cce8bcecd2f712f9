// Reading one rank's file. Payloads are read where the manifest says that they lie; no part of the file is parsed, so
// nothing that stands in it can do harm.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "files.h"
#include "manifest.h"
#include "transfer.h"

namespace lt::checkpoint {

class ShardReader {
 public:
  // Throws DataError where the file is missing, is no file, or differs in size from the manifest.
  ShardReader(const std::filesystem::path& folder, const FileEntry& file);

  // out[0..) = elements [begin, end) of the parameter, which the dataset holds, as `dtype`; `out` lies on the
  // transfer's device. Checks the blocks that it touches.
  void read(const DatasetEntry& dataset, Size begin, Size end, void* out, DType dtype, Transfer& transfer);
  // Reads one block and checks it; `values` has room for a block.
  void read_block(const DatasetEntry& dataset, std::size_t block, void* values);
  // Reads what is no payload, and checks it and, with the manifest's checksums of the payloads, the file as a whole.
  void check_metadata();

 private:
  // Converts `count` values on the host and sends them.
  void send_converted(void* out, DType dtype, const void* values, DType from, Size count, Transfer& transfer);

  std::filesystem::path path_;
  const FileEntry& entry_;
  OpenFile file_;
  std::shared_ptr<void> block_;  // a block that is converted
};

}  // namespace lt::checkpoint
