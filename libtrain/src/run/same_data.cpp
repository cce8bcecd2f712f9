// Hashes training files and compares them.
#include "run/same_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "io/lines.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "record/short_text.h"

namespace lt::run {
namespace {

using checkpoint::DataFile;

std::string describe(const DataFile& file) {
  return fmt::format("{} with {} bytes of digest {}", file.path, file.bytes, file.digest);
}

}  // namespace

std::vector<DataFile> identify_files(const std::string& key, const TokenLoader& data, const LaunchInfo& info,
                                     const Group& group) {
  const std::vector<TokenFile>& files = data.files();
  std::vector<DataFile> identified;
  Size bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    identified.push_back({data.source_of(static_cast<Size>(i)), files[i].path(), files[i].bytes(), ""});
    bytes += files[i].bytes();
  }
  // Each rank tells how many files it has, and the digests of its shares of those of its host and of all: a launcher
  // may not say which ranks share a host.
  const std::string all =
      fmt::format("{} of {} bytes", recorder::counted(static_cast<Size>(files.size()), "file"), bytes);
  std::string mine = all + "\n";
  collectively(group, [&] {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const auto number = static_cast<int>(i);
      if (number % info.local_size != info.local_rank && number % group.size() != group.rank()) continue;
      mine += fmt::format("{} {}\n", i, files[i].digest());
    }
  });
  const std::vector<std::string> told = group.all_gather_bytes(mine);
  collectively(group, [&] {
    const auto require = [&](const std::string& what, int rank, const std::string& found, int by,
                             const std::string& expected) {
      if (found == expected) return;
      throw DataError(
          "data",
          fmt::format("{}: expected {}{} on rank {}, as on rank {}, found {}", key, what, expected, rank, by, found),
          "each host needs the same files: copy them again");
    };
    std::vector<std::vector<std::string>> lines;
    for (const std::string& text : told) lines.push_back(io::split_lines(text));
    for (int rank = 0; rank < group.size(); ++rank) {
      require("", rank, lines[static_cast<std::size_t>(rank)][0], 0, lines[0][0]);
    }
    std::vector<int> told_by(files.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      const std::vector<std::string>& of_rank = lines[static_cast<std::size_t>(rank)];
      for (std::size_t line = 1; line < of_rank.size(); ++line) {
        const std::size_t space = of_rank[line].find(' '), i = std::stoul(of_rank[line]);
        const std::string digest = of_rank[line].substr(space + 1);
        DataFile& file = identified[i];
        if (file.digest.empty()) file.digest = digest, told_by[i] = rank;
        require(file.path + " of digest ", rank, digest, told_by[i], file.digest);
      }
    }
  });
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

}  // namespace lt::run
