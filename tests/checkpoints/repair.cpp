// Recomputes the checksums of damaged files.
#include "checkpoints/repair.h"

#include "checkpoints/format/shard_checksums.h"
#include "io/crc32c.h"

namespace lt_test {
using namespace lt;
using namespace lt::checkpoint;

std::string with_repaired_checksum(std::string text) {
  constexpr std::string_view kField = " \"crc32c\": \"";
  const std::size_t field = text.rfind(kField);
  if (field == text.npos) return text;
  return text.substr(0, field) + std::string(kField) + io::crc_text(io::crc32c(0, text.data(), field)) + "\"\n}\n";
}

void write_repaired(const fs::path& folder, Manifest manifest, const std::string& bytes) {
  FileEntry& entry = manifest.files.at(0);
  write_text(folder / entry.name, bytes);
  const FileChecksums sums = checksums_of(folder / entry.name, entry.datasets);
  entry.bytes = static_cast<Size>(bytes.size());
  entry.crc = sums.file, entry.crc_metadata = sums.metadata;
  for (std::size_t d = 0; d < entry.datasets.size(); ++d) entry.datasets[d].blocks = sums.blocks[d];
  write_text(folder / "manifest.json", manifest_text(manifest));
}

}  // namespace lt_test
