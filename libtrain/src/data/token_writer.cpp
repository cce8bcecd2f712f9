// Writes token files in the narrowest encoding that holds every token, and masks with one bit for each token.
#include "data/token_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/token_header.h"
#include "io/descriptor.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"

namespace lt::data {
namespace {

constexpr std::size_t kChunkTokens = std::size_t{1} << 18;

void write_header(io::PendingFile& file, std::int32_t magic, std::int32_t version, Size tokens) {
  std::vector<unsigned char> bytes(kTokenHeaderBytes, 0);
  store_uint(bytes.data(), static_cast<std::uint32_t>(magic), 4);
  store_uint(bytes.data() + 4, static_cast<std::uint32_t>(version), 4);
  store_uint(bytes.data() + 8, static_cast<std::uint32_t>(tokens), 4);
  file.write(bytes.data(), bytes.size());
}

void write_token_header(io::PendingFile& file, const std::string& path, Size tokens, bool narrow) {
  if (tokens > kMostTokens) {
    throw DataError("data",
                    fmt::format("{}: expected at most {} tokens in one file, got {}", path, kMostTokens, tokens));
  }
  const TokenEncoding& encoding = kTokenEncodings[narrow ? 0 : 1];
  write_header(file, encoding.magic, encoding.version, tokens);
}

void write_tokens(io::PendingFile& file, std::span<const std::uint32_t> tokens, bool narrow) {
  const int width = narrow ? 2 : 4;
  std::vector<unsigned char> bytes;
  for (std::size_t begin = 0; begin < tokens.size(); begin += kChunkTokens) {
    const std::span<const std::uint32_t> chunk = tokens.subspan(begin, std::min(kChunkTokens, tokens.size() - begin));
    bytes.resize(chunk.size() * static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      store_uint(bytes.data() + i * static_cast<std::size_t>(width), chunk[i], width);
    }
    file.write(bytes.data(), bytes.size());
  }
}

}  // namespace

TokenFileWriter::TokenFileWriter(const std::string& stem, Size tokens, bool narrow, bool may_mask)
    : stem_(stem), narrow_(narrow), left_(tokens), tokens_("data", stem + ".bin") {
  write_token_header(tokens_, stem + ".bin", tokens, narrow);
  if (!may_mask) return;
  mask_.emplace("data", stem + ".mask");
  write_header(*mask_, kMaskMagic, kMaskVersion, tokens);
}

void TokenFileWriter::write(std::span<const std::uint32_t> tokens, std::span<const std::uint8_t> targets) {
  left_ -= static_cast<Size>(tokens.size());
  write_tokens(tokens_, tokens, narrow_);
  if (!mask_) return;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool is_target = targets.empty() || targets[i] != 0;
    masked_ += is_target ? 0 : 1;
    bits_ = static_cast<unsigned char>(bits_ | (is_target ? 1u : 0u) << bit_);
    if (++bit_ < 8) continue;
    mask_bytes_.push_back(bits_);
    bits_ = 0, bit_ = 0;
  }
  flush_mask();
}

void TokenFileWriter::flush_mask() {
  mask_->write(mask_bytes_.data(), mask_bytes_.size());
  mask_bytes_.clear();
}

std::vector<io::PendingFile*> TokenFileWriter::finish() {
  if (left_ != 0) throw InternalError("data", fmt::format("{}.bin: {} tokens are missing", stem_, left_));
  tokens_.finish();
  if (masked_ == 0) return {&tokens_};
  if (bit_ > 0) mask_bytes_.push_back(bits_);
  flush_mask();
  mask_->finish();
  return {&*mask_, &tokens_};  // the mask first: a token file never lacks its own
}

std::vector<std::string> TokenFileWriter::paths() const {
  if (masked_ == 0) return {stem_ + ".bin"};
  return {stem_ + ".bin", stem_ + ".mask"};
}

TokenFilesWriter::TokenFilesWriter(const std::string& folder, const std::string& kind, const std::vector<Size>& lengths,
                                   bool narrow, bool may_mask) {
  io::allow_descriptors(2 * lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::string name = i == 0 ? kind : fmt::format("{}-{:05}", kind, i);
    files_.push_back(std::make_unique<TokenFileWriter>(folder + "/" + name, lengths[i], narrow, may_mask));
  }
}

void TokenFilesWriter::write(std::span<const std::uint32_t> tokens, std::span<const std::uint8_t> targets) {
  while (!tokens.empty()) {
    while (at_ < files_.size() && files_[at_]->tokens_left() == 0) ++at_;
    if (at_ == files_.size()) throw InternalError("data", "token files: more tokens than were announced");
    const std::size_t count = std::min(tokens.size(), static_cast<std::size_t>(files_[at_]->tokens_left()));
    files_[at_]->write(tokens.first(count), targets.empty() ? targets : targets.first(count));
    tokens = tokens.subspan(count);
    if (!targets.empty()) targets = targets.subspan(count);
  }
}

std::vector<io::PendingFile*> TokenFilesWriter::finish() {
  std::vector<io::PendingFile*> all;
  for (const auto& file : files_) {
    for (io::PendingFile* const each : file->finish()) all.push_back(each);
  }
  return all;
}

std::vector<std::string> TokenFilesWriter::paths() const {
  std::vector<std::string> all;
  for (const auto& file : files_) {
    for (const std::string& path : file->paths()) all.push_back(path);
  }
  return all;
}

Size TokenFilesWriter::masked() const {
  Size all = 0;
  for (const auto& file : files_) all += file->masked();
  return all;
}

}  // namespace lt::data

namespace lt {

void write_token_file(const std::string& path, const std::vector<std::uint32_t>& tokens) {
  const bool narrow = std::all_of(tokens.begin(), tokens.end(), [](std::uint32_t token) { return token <= 0xffff; });
  io::PendingFile file("data", path);
  data::write_token_header(file, path, static_cast<Size>(tokens.size()), narrow);
  data::write_tokens(file, tokens, narrow);
  file.commit();
}

}  // namespace lt
