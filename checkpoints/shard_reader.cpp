// Reading one rank's file block by block, each checked before any of it is handed out. So a part of a dataset can be
// read without reading the whole.
#include "shard_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/crc32c.h"
#include "layout.h"
#include "shard_checksums.h"

namespace lt::checkpoint {

ShardReader::ShardReader(const std::filesystem::path& folder, const FileEntry& file)
    : name_(file.name), file_(open_regular(folder / file.name)) {
  const Size bytes = file_.bytes();
  if (bytes != file.bytes) {
    throw DataError("checkpoint", fmt::format("{}: expected {} bytes, found {}", file.name, file.bytes, bytes));
  }
  const std::uint32_t crc = metadata_checksum_of(folder / file.name, file.datasets);
  if (crc != file.crc_metadata) {
    throw DataError("checkpoint", fmt::format("{}: metadata: crc32c: expected {}, found {}", file.name,
                                              crc_text(file.crc_metadata), crc_text(crc)));
  }
}

void ShardReader::read(const DatasetEntry& dataset, Size begin, Size end, float* out) {
  constexpr Size kElements = kBlockBytes / Size{sizeof(float)};
  for (Size b = (begin - dataset.begin) / kElements; dataset.begin + b * kElements < end; ++b) {
    const Size block_begin = dataset.begin + b * kElements;
    const Size block_end = std::min(block_begin + kElements, dataset.end);
    const bool whole = begin <= block_begin && block_end <= end;
    block_.resize(static_cast<std::size_t>(whole ? 0 : kElements));
    float* const values = whole ? out + (block_begin - begin) : block_.data();
    const Size bytes = (block_end - block_begin) * Size{sizeof(float)};
    file_.read_at(values, bytes, dataset.offset + b * kBlockBytes);
    const auto index = static_cast<std::size_t>(b);
    const std::uint32_t found = crc32c(0, values, static_cast<std::size_t>(bytes));
    if (found != dataset.blocks.at(index)) {
      throw DataError("checkpoint",
                      fmt::format("{}: {}: crc32c: expected {}, found {}", name_, block_name(dataset, index),
                                  crc_text(dataset.blocks[index]), crc_text(found)));
    }
    if (whole) continue;
    const Size from = std::max(begin, block_begin), to = std::min(end, block_end);
    std::memcpy(out + (from - begin), values + (from - block_begin),
                static_cast<std::size_t>(to - from) * sizeof(float));
  }
}

}  // namespace lt::checkpoint
