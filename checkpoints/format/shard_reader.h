// Reads one rank's file. Payloads are read at the offsets in the manifest. No part of the file is parsed, so a damaged
// file can do no harm.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "checkpoints/format/files.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/transfer.h"

namespace lt::checkpoint {

class ShardReader {
 public:
  // Throws DataError if the file is missing, is not a regular file, or differs in size from the manifest.
  ShardReader(const std::filesystem::path& folder, const FileEntry& file);

  // Writes elements [begin, end) of the parameter, which the dataset must hold, to out[0..) as `dtype`. `out` must lie
  // on the transfer's device. Checks the blocks that it touches. Throws DataError if a checksum does not match.
  void read(const DatasetEntry& dataset, Size begin, Size end, void* out, DType dtype, Transfer& transfer);
  // Reads one block and checks it. `values` must hold kBlockBytes bytes.
  void read_block(const DatasetEntry& dataset, std::size_t block, void* values);
  // Reads and checks all bytes outside payloads. Also checks the file as a whole, with the manifest's checksums of the
  // payloads.
  void check_metadata();

 private:
  // Converts `count` values on the host and sends them.
  void send_converted(void* out, DType dtype, const void* values, DType from, Size count, Transfer& transfer);

  std::filesystem::path path_;
  const FileEntry& entry_;
  io::CheckedFile file_;
  std::shared_ptr<void> block_;  // holds a block during conversion
};

}  // namespace lt::checkpoint
