// Reads one rank's file block by block, and checks each block before handing out any of it. So a range of a dataset can
// be read without the rest.
#include "checkpoints/format/shard_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoints/format/layout.h"
#include "checkpoints/format/shard_checksums.h"
#include "device/progress.h"
#include "io/crc32c.h"
#include "kernels/elementwise.h"
#include "tensor/host_memory.h"

namespace lt::checkpoint {
namespace {

void require_checksum(const std::string& what, std::uint32_t expected, std::uint32_t found) {
  if (found == expected) return;
  throw DataError("checkpoint",
                  fmt::format("{}: crc32c: expected {}, found {}", what, io::crc_text(expected), io::crc_text(found)));
}

}  // namespace

ShardReader::ShardReader(const std::filesystem::path& folder, const FileEntry& file)
    : path_(folder / file.name), entry_(file), file_(open_regular(path_)) {
  const Size bytes = file_.bytes();
  if (bytes == file.bytes) return;
  throw DataError("checkpoint", fmt::format("{}: expected {} bytes, found {}", file.name, file.bytes, bytes));
}

void ShardReader::read_block(const DatasetEntry& dataset, std::size_t block, void* values) {
  const Size at = static_cast<Size>(block) * kBlockBytes, bytes = std::min(kBlockBytes, dataset.bytes() - at);
  file_.read_at(values, bytes, dataset.offset + at);
  const std::uint32_t found = io::crc32c(0, values, static_cast<std::size_t>(bytes));
  device::count_progress();
  if (found == dataset.blocks.at(block)) return;  // the name is built only for an error
  require_checksum(entry_.name + ": " + block_name(dataset, block), dataset.blocks[block], found);
}

void ShardReader::read(const DatasetEntry& dataset, Size begin, Size end, void* out, DType dtype, Transfer& transfer) {
  const Size elements = block_elements(dataset.dtype), bytes = dtype_bytes(dataset.dtype);
  const bool converts = dtype != dataset.dtype;
  const auto place = [&](Size at) { return static_cast<std::byte*>(out) + (at - begin) * dtype_bytes(dtype); };
  for (Size b = (begin - dataset.begin) / elements; dataset.begin + b * elements < end; ++b) {
    const Size block_begin = dataset.begin + b * elements, block_end = std::min(block_begin + elements, dataset.end);
    const auto block = static_cast<std::size_t>(b);
    if (transfer.in_place() && !converts && begin <= block_begin && block_end <= end) {
      read_block(dataset, block, place(block_begin));
      continue;
    }
    if (converts && block_ == nullptr) block_ = tensor::host_memory(kCpu, kBlockBytes);
    void* const values = converts ? block_.get() : transfer.buffer();
    read_block(dataset, block, values);
    const Size from = std::max(begin, block_begin), count = std::min(end, block_end) - from;
    const std::byte* const wanted = static_cast<const std::byte*>(values) + (from - block_begin) * bytes;
    if (converts) {
      send_converted(place(from), dtype, wanted, dataset.dtype, count, transfer);
    } else {
      transfer.send(place(from), wanted, count * bytes);
    }
  }
}

void ShardReader::send_converted(void* out, DType dtype, const void* values, DType from, Size count,
                                 Transfer& transfer) {
  const Size step = block_elements(dtype);
  for (Size at = 0; at < count; at += step) {
    const Size n = std::min(step, count - at);
    void* const converted = transfer.buffer();
    kernels::convert(CpuStream{}, dtype, converted, from,
                     static_cast<const std::byte*>(values) + at * dtype_bytes(from), n, false);
    transfer.send(static_cast<std::byte*>(out) + at * dtype_bytes(dtype), converted, n * dtype_bytes(dtype));
  }
}

void ShardReader::check_metadata() {
  const FileChecksums found = checksums_around(path_, entry_);
  require_checksum(entry_.name + ": metadata", entry_.crc_metadata, found.metadata);
  require_checksum(entry_.name, entry_.crc, found.file);
}

}  // namespace lt::checkpoint
