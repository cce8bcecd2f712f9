// Pieces are numbered over all files. Rank r of n takes the r-th of n contiguous shares, so that it opens few files.
#include "checkpoints/format/load_shares.h"

#include <algorithm>
#include <optional>

#include "checkpoints/format/shard_reader.h"

namespace lt::checkpoint {
namespace {

// Calls visit(file, dataset, block) for each piece. The piece of a file's metadata has a null dataset.
template <class Visit>
void for_each_piece(const Manifest& manifest, Visit&& visit) {
  for (const FileEntry& file : manifest.files) {
    visit(file, static_cast<const DatasetEntry*>(nullptr), std::size_t{0});
    for (const DatasetEntry& dataset : file.datasets) {
      for (std::size_t block = 0; block < dataset.blocks.size(); ++block) visit(file, &dataset, block);
    }
  }
}

}  // namespace

Size piece_count(const Manifest& manifest) {
  Size pieces = 0;
  for_each_piece(manifest, [&](const FileEntry&, const DatasetEntry*, std::size_t) { ++pieces; });
  return pieces;
}

void verify_share(const std::filesystem::path& folder, const Manifest& manifest, const std::vector<bool>& read,
                  int rank, int size) {
  const Size unread =
      read.empty() ? piece_count(manifest) : static_cast<Size>(std::count(read.begin(), read.end(), false));
  const Size begin = unread * rank / size, end = unread * (rank + 1) / size;
  std::size_t piece = 0;
  Size next = 0;
  const FileEntry* open = nullptr;
  std::optional<ShardReader> reader;
  Transfer memory;
  for_each_piece(manifest, [&](const FileEntry& file, const DatasetEntry* dataset, std::size_t block) {
    if (const std::size_t at = piece++; !read.empty() && read[at]) return;
    const Size index = next++;
    if (index < begin || index >= end) return;
    if (open != &file) open = &file, reader.emplace(folder, file);
    dataset == nullptr ? reader->check_metadata() : reader->read_block(*dataset, block, memory.buffer());
  });
}

}  // namespace lt::checkpoint
