// Checks and applies masks of targets.
#include "data/mask_file.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "data/token_header.h"
#include "io/presence.h"
#include "libtrain/tensor/batch.h"

namespace lt::data {

MaskFile::MaskFile(const std::string& path, Size tokens)
    : file_(path, "mask file",
            "`ltrain prepare` writes a mask with its token file; remove it if it is not of this one") {
  if (file_.size() < kTokenHeaderBytes) {
    file_.fail(file_.size(), "expected a header of {} bytes, found {} bytes", kTokenHeaderBytes, file_.size());
  }
  unsigned char header[kTokenHeaderBytes];
  file_.read(0, kTokenHeaderBytes, header);
  const auto require = [&](Size offset, Size expected, const std::string& text) {
    const auto found = static_cast<std::int32_t>(load_u32(header + offset));
    if (found != expected) file_.fail(offset, "expected {}, found {}", text, found);
  };
  require(0, kMaskMagic, fmt::format("magic number {}", kMaskMagic));
  require(4, kMaskVersion, fmt::format("version {}", kMaskVersion));
  require(8, tokens, fmt::format("token count {}, as in the token file", tokens));
  file_.require_size(kTokenHeaderBytes + (tokens + 7) / 8, fmt::format("{} bits", tokens));
}

void MaskFile::apply(Size begin, Size count, std::int32_t* targets) const {
  if (count == 0) return;
  const Size first = begin / 8, last = (begin + count + 7) / 8;
  std::vector<unsigned char> bytes(static_cast<std::size_t>(last - first));
  file_.read(kTokenHeaderBytes + first, last - first, bytes.data());
  for (Size i = 0; i < count; ++i) {
    const Size bit = begin + i - 8 * first;
    if ((bytes[static_cast<std::size_t>(bit / 8)] >> (bit % 8) & 1) == 0) targets[i] = kIgnoredTarget;
  }
}

bool MaskFile::counts_any(Size begin, Size end) const {
  constexpr Size kChunk = Size{1} << 20;
  std::vector<std::int32_t> targets;
  for (; begin < end; begin += static_cast<Size>(targets.size())) {
    targets.assign(static_cast<std::size_t>(std::min(kChunk, end - begin)), 0);
    apply(begin, static_cast<Size>(targets.size()), targets.data());
    if (std::ranges::find(targets, 0) != targets.end()) return true;
  }
  return false;
}

std::optional<std::string> mask_beside(const std::string& token_file) {
  constexpr std::string_view kEnd = ".bin";
  if (!token_file.ends_with(kEnd)) return std::nullopt;
  const std::string path = token_file.substr(0, token_file.size() - kEnd.size()) + ".mask";
  return io::is_present("data", path) ? std::optional(path) : std::nullopt;
}

}  // namespace lt::data
