// Computes checksums per block, and joins them to the checksum of the file.
#include "checkpoints/format/shard_checksums.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <numeric>
#include <span>
#include <system_error>

#include "checkpoints/format/files.h"
#include "checkpoints/format/layout.h"
#include "device/progress.h"
#include "io/crc32c.h"
#include "kernels/threads.h"

namespace lt::checkpoint {
namespace {

// Calls visit(dataset, offset, bytes) for pieces of at most kBlockBytes in file order, which together cover the file:
// the blocks of each payload, and all other bytes with dataset -1.
template <class Visit>
void for_each_piece(const std::string& name, Size end, const std::vector<DatasetEntry>& datasets, Visit&& visit) {
  std::vector<std::size_t> order(datasets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return datasets[a].offset < datasets[b].offset; });
  Size at = 0;
  const auto visit_up_to = [&](Size target, Size dataset) {
    for (; at < target; at = std::min(at + kBlockBytes, target)) visit(dataset, at, std::min(kBlockBytes, target - at));
  };
  for (const std::size_t d : order) {
    const Size begin = datasets[d].offset, bytes = datasets[d].bytes();
    if (begin < at || begin > end || bytes > end - begin) {
      throw DataError("checkpoint",
                      fmt::format("{}: {}: expected {} bytes of its own at {}, found other data or the end", name,
                                  to_string(datasets[d]), bytes, begin));
    }
    visit_up_to(begin, -1);
    visit_up_to(begin + bytes, static_cast<Size>(d));
  }
  visit_up_to(end, -1);
}

// Reads pieces of one file into the same memory, one at a time.
class PieceReader {
 public:
  explicit PieceReader(const std::filesystem::path& path) : file_(open_regular(path)) {}

  Size file_bytes() const { return file_.bytes(); }
  std::uint32_t checksum(Size offset, Size bytes) {
    if (static_cast<Size>(buffer_.size()) < bytes) buffer_.resize(static_cast<std::size_t>(bytes));
    file_.read_at(buffer_.data(), bytes, offset);
    device::count_progress();
    return io::crc32c(0, buffer_.data(), static_cast<std::size_t>(bytes));
  }

 private:
  io::CheckedFile file_;
  std::vector<char> buffer_;
};

struct Piece {
  Size dataset, offset, bytes;
  std::uint32_t sum;
};

// Computes the sum of each piece. A save in the background of training uses one thread, every other caller up to four.
void checksum(const std::filesystem::path& path, std::span<Piece> pieces, const CountBytes& count) {
  constexpr std::size_t kMostThreads = 4;  // more would wait for memory
  constexpr std::size_t kLeastPiecesPerThread = 16;
  const auto own = device::is_in_background() ? std::size_t{1} : static_cast<std::size_t>(kernels::threads());
  const std::size_t worth = std::max(pieces.size() / kLeastPiecesPerThread, std::size_t{1});
  const std::size_t threads = std::min({worth, own, kMostThreads});
  std::atomic<Size> bytes{0};  // read by all threads, and not counted yet
  const auto read = [&](std::size_t thread) {
    PieceReader file(path);
    const std::size_t begin = pieces.size() * thread / threads, end = pieces.size() * (thread + 1) / threads;
    for (Piece& piece : pieces.subspan(begin, end - begin)) {
      piece.sum = file.checksum(piece.offset, piece.bytes);
      bytes += piece.bytes;
      if (thread == 0 && count) count(bytes.exchange(0));
    }
  };
  std::vector<std::future<void>> others;
  for (std::size_t thread = 1; thread < threads; ++thread) {
    try {
      others.push_back(std::async(std::launch::async, read, thread));
    } catch (const std::system_error&) {  // no thread available
      read(thread);
    }
  }
  read(0);
  for (std::future<void>& other : others) other.get();
  if (count) count(bytes);
}

}  // namespace

std::string block_name(const DatasetEntry& dataset, std::size_t block) {
  const Size elements = block_elements(dataset.dtype), begin = dataset.begin + static_cast<Size>(block) * elements;
  return to_string(dataset.kind, dataset.parameter, begin, std::min(begin + elements, dataset.end));
}

FileChecksums checksums_of(const std::filesystem::path& path, const std::vector<DatasetEntry>& datasets,
                           const CountBytes& count) {
  std::vector<Piece> pieces;
  for_each_piece(path.filename().string(), file_bytes(path), datasets, [&](Size dataset, Size offset, Size bytes) {
    pieces.push_back({dataset, offset, bytes, 0});
  });
  checksum(path, pieces, count);
  FileChecksums sums;
  sums.blocks.resize(datasets.size());
  for (const Piece& piece : pieces) {
    const auto length = static_cast<std::uint64_t>(piece.bytes);
    sums.file = io::crc32c_concat(sums.file, piece.sum, length);
    if (piece.dataset < 0) sums.metadata = io::crc32c_concat(sums.metadata, piece.sum, length);
    if (piece.dataset >= 0) sums.blocks[static_cast<std::size_t>(piece.dataset)].push_back(piece.sum);
  }
  return sums;
}

FileChecksums checksums_around(const std::filesystem::path& path, const FileEntry& entry) {
  PieceReader file(path);
  FileChecksums sums;
  for_each_piece(entry.name, file.file_bytes(), entry.datasets, [&](Size dataset, Size offset, Size bytes) {
    const auto length = static_cast<std::uint64_t>(bytes);
    if (dataset < 0) {
      const std::uint32_t piece = file.checksum(offset, bytes);
      sums.metadata = io::crc32c_concat(sums.metadata, piece, length);
      sums.file = io::crc32c_concat(sums.file, piece, length);
    } else {
      const DatasetEntry& payload = entry.datasets[static_cast<std::size_t>(dataset)];
      const auto block = static_cast<std::size_t>((offset - payload.offset) / kBlockBytes);
      sums.file = io::crc32c_concat(sums.file, payload.blocks.at(block), length);
    }
  });
  return sums;
}

}  // namespace lt::checkpoint
