// Hashes training files and compares them.
#include "train/same_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "io/lines.h"
#include "libtrain/kernels/random.h"

namespace lt {
namespace {

using checkpoint::DataFile;

std::string describe(const DataFile& file) {
  return fmt::format("{} with {} bytes of digest {}", file.path, file.bytes, file.digest);
}

}  // namespace

std::vector<DataFile> identify_files(const TokenLoader& data, const Group& group) {
  const std::vector<TokenFile>& files = data.files();
  const auto ranks = static_cast<std::size_t>(group.size());
  std::string mine;
  collectively(group, [&] {
    for (auto i = static_cast<std::size_t>(group.rank()); i < files.size(); i += ranks)
      mine += files[i].digest() + "\n";
  });
  std::vector<std::vector<std::string>> digests;
  for (const std::string& text : group.all_gather_bytes(mine)) digests.push_back(split_lines(text));
  std::vector<DataFile> identified;
  for (std::size_t i = 0; i < files.size(); ++i) {
    identified.push_back(
        {data.source_of(static_cast<Size>(i)), files[i].path(), files[i].bytes(), digests[i % ranks][i / ranks]});
  }
  return identified;
}

std::string digest_of(const std::vector<DataFile>& files) {
  std::uint64_t hash = 0;
  for (const DataFile& file : files)
    hash = derive_key(hash, fmt::format("{} {} {}", file.source, file.bytes, file.digest));
  return files.empty() ? "" : fmt::format("{:016x}", hash);
}

bool is_same_data(const std::vector<DataFile>& now, const EarlierData& earlier) {
  const bool is_known = !earlier.files.empty() || !earlier.digest.empty();
  return is_known && !now.empty() && !difference_of(now, earlier);
}

std::optional<DataDifference> difference_of(const std::vector<DataFile>& now, const EarlierData& earlier) {
  const std::vector<DataFile>& before = earlier.files;
  if (before.empty()) {
    if (earlier.digest.empty() || earlier.digest == digest_of(now)) return std::nullopt;
    return DataDifference{"files of digest " + earlier.digest, digest_of(now)};
  }
  if (now.size() != before.size()) {
    return DataDifference{fmt::format("{} files", before.size()), std::to_string(now.size())};
  }
  const auto [a, b] = std::ranges::mismatch(before, now, &DataFile::has_bytes_of);
  if (a == before.end()) return std::nullopt;
  return DataDifference{describe(*a), describe(*b)};
}

}  // namespace lt
