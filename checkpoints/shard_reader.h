// Reading one rank's file. Payloads are read where the manifest says that they lie; no part of the file is parsed, so
// nothing that stands in it can do harm.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "files.h"
#include "manifest.h"

namespace lt::checkpoint {

class ShardReader {
 public:
  // Throws DataError where the file is missing, is no file, or differs in size or metadata from the manifest.
  ShardReader(const std::filesystem::path& folder, const FileEntry& file);

  // out[0..) = elements [begin, end) of the parameter, which the dataset holds. Checks the blocks that it touches.
  void read(const DatasetEntry& dataset, Size begin, Size end, float* out);

 private:
  std::string name_;
  Descriptor file_;
  std::vector<float> block_;
};

}  // namespace lt::checkpoint
