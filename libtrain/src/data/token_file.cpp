// Reads token files. No token is read before the file's length has been checked against its header.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "data/data_file.h"
#include "data/mask_file.h"
#include "data/token_header.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"

namespace lt {

struct TokenFile::Content {
  data::DataFile file;
  Size begin = 0;  // byte offset of the first token
  Size count = 0;
  int width = 2;
  std::optional<data::MaskFile> mask;

  explicit Content(const std::string& path)
      : file(path, "token file", "`ltrain prepare` writes token files; the format raw16 is uint16 without a header") {}

  void read_header();
  void set_raw16();
  void require_range(Size first, Size last) const;
  // Reads tokens [first, last) and calls `use` with a function that returns token i of them.
  template <class Use>
  void with_tokens(Size first, Size last, const Use& use) const {
    std::vector<unsigned char> bytes(static_cast<std::size_t>((last - first) * width));
    file.read(begin + first * width, (last - first) * width, bytes.data());
    width == 2 ? use([p = bytes.data()](Size i) { return data::load_u16(p + 2 * i); })
               : use([p = bytes.data()](Size i) { return data::load_u32(p + 4 * i); });
  }
};

void TokenFile::Content::read_header() {
  unsigned char header[data::kTokenHeaderBytes] = {};
  file.read(0, std::min(file.size(), data::kTokenHeaderBytes), header);
  // Check the magic number first: it gives the best error for a text file passed by mistake, however short.
  const auto field = [&](Size offset) { return static_cast<std::int32_t>(data::load_u32(header + offset)); };
  const data::TokenEncoding* encoding = nullptr;
  if (file.size() >= 4) {
    for (const data::TokenEncoding& e : data::kTokenEncodings) encoding = e.magic == field(0) ? &e : encoding;
    if (encoding == nullptr) {
      file.fail(0, "expected magic number {} (uint16) or {} (uint32), found {}", data::kTokenEncodings[0].magic,
                data::kTokenEncodings[1].magic, field(0));
    }
  }
  if (file.size() < data::kTokenHeaderBytes) {
    file.fail(file.size(), "expected a header of {} bytes, found {} bytes", data::kTokenHeaderBytes, file.size());
  }
  if (field(4) != encoding->version) {
    file.fail(4, "expected version {} with magic number {}, found {}", encoding->version, encoding->magic, field(4));
  }
  if (field(8) < 0) file.fail(8, "expected a token count of at least 0, found {}", field(8));
  begin = data::kTokenHeaderBytes, width = encoding->width, count = field(8);
  file.require_size(begin + count * width, fmt::format("{} tokens", count));
}

void TokenFile::Content::set_raw16() {
  if (file.size() % 2 != 0) file.fail(file.size() - 1, "expected whole uint16 tokens, found {} bytes", file.size());
  begin = 0, width = 2, count = file.size() / 2;
}

TokenFile::TokenFile(const std::string& path, TokenFormat format) {
  const auto content = std::make_shared<Content>(path);
  if (content->file.size() == 0) content->file.fail(0, "expected tokens, found an empty file");
  if (format == TokenFormat::raw16) {
    content->set_raw16();
  } else {
    content->read_header();
  }
  if (const auto mask = data::mask_beside(path)) content->mask.emplace(*mask, content->count);
  content_ = content;
}

const std::string& TokenFile::path() const { return content_->file.path(); }
Size TokenFile::tokens() const { return content_->count; }
Size TokenFile::bytes() const { return content_->file.size(); }

std::string TokenFile::digest() const {
  std::uint64_t hash = content_->file.digest(0);
  if (content_->mask) hash = content_->mask->digest(hash);
  return fmt::format("{:016x}", hash);
}

bool TokenFile::has_mask() const { return content_->mask.has_value(); }

void TokenFile::Content::require_range(Size first, Size last) const {
  if (first >= 0 && first <= last && last <= count) return;
  throw InternalError(
      "data", fmt::format("{}: expected a range within {} tokens, got [{}, {})", file.path(), count, first, last));
}

void TokenFile::ignore_masked(Size begin, Size count, std::int32_t* targets) const {
  content_->require_range(begin, begin + count);
  if (content_->mask) content_->mask->apply(begin, count, targets);
}

bool TokenFile::has_targets(Size begin, Size end) const {
  content_->require_range(begin, end);
  return begin < end && (!content_->mask || content_->mask->counts_any(begin, end));
}

void TokenFile::read(Size begin, Size count, std::int32_t* out) const {
  content_->require_range(begin, begin + count);
  content_->with_tokens(begin, begin + count, [&](auto token) {
    for (Size i = 0; i < count; ++i) out[i] = static_cast<std::int32_t>(token(i));
  });
}

void TokenFile::require_below(std::int64_t vocab, Size begin, Size end) const {
  const Content& content = *content_;
  content.require_range(begin, end);
  if (vocab > (content.width == 2 ? 0xffff : 0xffffffff)) return;
  constexpr Size kChunk = Size{1} << 19;
  for (Size first = begin; first < end; first += kChunk) {
    const Size last = std::min(end, first + kChunk);
    content.with_tokens(first, last, [&](auto token) {
      std::uint32_t highest = 0;  // the maximum of a chunk vectorises, a search with an early exit does not
      for (Size i = 0; i < last - first; ++i) highest = std::max(highest, token(i));
      if (highest < vocab) return;
      Size i = 0;
      while (token(i) < vocab) ++i;
      throw DataError("data",
                      fmt::format("{}: offset {}: expected a token below the vocabulary {}, found {} (token number {})",
                                  path(), content.begin + (first + i) * content.width, vocab, token(i), first + i),
                      "a larger vocabulary of the model, or data that the tokenizer of the model has prepared");
    });
  }
}

}  // namespace lt
