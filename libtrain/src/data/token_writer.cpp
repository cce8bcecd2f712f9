// Writes token files in the narrowest encoding that holds every token.
#include "data/token_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "data/token_header.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"

namespace lt {
namespace {

constexpr std::size_t kChunkTokens = std::size_t{1} << 18;

void store(std::vector<unsigned char>& bytes, std::size_t at, std::uint32_t value, int width) {
  for (int b = 0; b < width; ++b)
    bytes[at + static_cast<std::size_t>(b)] = static_cast<unsigned char>(value >> (8 * b));
}

}  // namespace

void write_tokens(PendingFile& file, const std::string& path, std::span<const std::uint32_t> tokens) {
  constexpr std::size_t kMax = std::numeric_limits<std::int32_t>::max();
  if (tokens.size() > kMax) {
    throw DataError("data",
                    fmt::format("{}: expected at most {} tokens in one file, got {}", path, kMax, tokens.size()),
                    "split the input into several files");
  }
  const bool narrow = std::all_of(tokens.begin(), tokens.end(), [](std::uint32_t token) { return token <= 0xffff; });
  const TokenEncoding& encoding = kTokenEncodings[narrow ? 0 : 1];

  std::vector<unsigned char> bytes(kTokenHeaderBytes, 0);
  store(bytes, 0, static_cast<std::uint32_t>(encoding.magic), 4);
  store(bytes, 4, static_cast<std::uint32_t>(encoding.version), 4);
  store(bytes, 8, static_cast<std::uint32_t>(tokens.size()), 4);
  file.write(bytes.data(), bytes.size());

  const auto width = static_cast<std::size_t>(encoding.width);
  for (std::size_t begin = 0; begin < tokens.size(); begin += kChunkTokens) {
    const std::span<const std::uint32_t> chunk = tokens.subspan(begin, std::min(kChunkTokens, tokens.size() - begin));
    bytes.resize(chunk.size() * width);
    for (std::size_t i = 0; i < chunk.size(); ++i) store(bytes, i * width, chunk[i], encoding.width);
    file.write(bytes.data(), bytes.size());
  }
}

void write_token_file(const std::string& path, const std::vector<std::uint32_t>& tokens) {
  PendingFile file("data", path);
  write_tokens(file, path, tokens);
  file.commit();
}

}  // namespace lt
