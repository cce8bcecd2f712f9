// The pieces that no rank's reading covers, counted through over all files: rank r of n takes the r-th n-th of them, so
// that it opens few files.
#include "load_shares.h"

#include <functional>
#include <optional>

#include "shard_reader.h"

namespace lt::checkpoint {
namespace {

// Calls visit(file, dataset, block) for each piece; what is no payload is one piece of its file, without a dataset.
void for_each_piece(const Manifest& manifest, const std::set<StateKind>& loaded,
                    const std::function<void(const FileEntry&, const DatasetEntry*, std::size_t)>& visit) {
  for (const FileEntry& file : manifest.files) {
    visit(file, nullptr, 0);
    for (const DatasetEntry& dataset : file.datasets) {
      if (loaded.contains(dataset.kind)) continue;
      for (std::size_t block = 0; block < dataset.blocks.size(); ++block) visit(file, &dataset, block);
    }
  }
}

}  // namespace

void verify_share(const std::filesystem::path& folder, const Manifest& manifest, const std::set<StateKind>& loaded,
                  int rank, int size) {
  Size pieces = 0, next = 0;
  for_each_piece(manifest, loaded, [&](const FileEntry&, const DatasetEntry*, std::size_t) { ++pieces; });
  const Size begin = pieces * rank / size, end = pieces * (rank + 1) / size;
  const FileEntry* open = nullptr;
  std::optional<ShardReader> reader;
  Transfer memory;
  for_each_piece(manifest, loaded, [&](const FileEntry& file, const DatasetEntry* dataset, std::size_t block) {
    const Size index = next++;
    if (index < begin || index >= end) return;
    if (open != &file) open = &file, reader.emplace(folder, file);
    dataset == nullptr ? reader->check_metadata() : reader->read_block(*dataset, block, memory.buffer());
  });
}

}  // namespace lt::checkpoint
