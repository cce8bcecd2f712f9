// Reading one rank's file block by block, each checked before any of it is handed out. So a part of a dataset can be
// read without reading the whole.
#include "shard_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/crc32c.h"
#include "core/progress.h"
#include "layout.h"
#include "shard_checksums.h"

namespace lt::checkpoint {
namespace {

void require_checksum(const std::string& what, std::uint32_t expected, std::uint32_t found) {
  if (found == expected) return;
  throw DataError("checkpoint",
                  fmt::format("{}: crc32c: expected {}, found {}", what, crc_text(expected), crc_text(found)));
}

}  // namespace

ShardReader::ShardReader(const std::filesystem::path& folder, const FileEntry& file)
    : path_(folder / file.name), entry_(file), file_(open_regular(path_)) {
  const Size bytes = file_.bytes();
  if (bytes == file.bytes) return;
  throw DataError("checkpoint", fmt::format("{}: expected {} bytes, found {}", file.name, file.bytes, bytes));
}

void ShardReader::read_block(const DatasetEntry& dataset, std::size_t block, float* values) {
  const Size at = static_cast<Size>(block) * kBlockBytes, bytes = std::min(kBlockBytes, dataset.bytes() - at);
  file_.read_at(values, bytes, dataset.offset + at);
  const std::uint32_t found = crc32c(0, values, static_cast<std::size_t>(bytes));
  count_progress();
  if (found == dataset.blocks.at(block)) return;  // the name is made where it is needed
  require_checksum(entry_.name + ": " + block_name(dataset, block), dataset.blocks[block], found);
}

void ShardReader::read(const DatasetEntry& dataset, Size begin, Size end, float* out, Transfer& transfer) {
  for (Size b = (begin - dataset.begin) / kBlockElements; dataset.begin + b * kBlockElements < end; ++b) {
    const Size block_begin = dataset.begin + b * kBlockElements;
    const Size block_end = std::min(block_begin + kBlockElements, dataset.end);
    if (transfer.in_place() && begin <= block_begin && block_end <= end) {
      read_block(dataset, static_cast<std::size_t>(b), out + (block_begin - begin));
      continue;
    }
    float* const values = transfer.buffer();
    read_block(dataset, static_cast<std::size_t>(b), values);
    const Size from = std::max(begin, block_begin), to = std::min(end, block_end);
    transfer.send(out + (from - begin), values + (from - block_begin), to - from);
  }
}

void ShardReader::check_metadata() {
  const FileChecksums found = checksums_around(path_, entry_);
  require_checksum(entry_.name + ": metadata", entry_.crc_metadata, found.metadata);
  require_checksum(entry_.name, entry_.crc, found.file);
}

}  // namespace lt::checkpoint
