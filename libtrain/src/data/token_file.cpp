// Maps token files read-only. No token is read before the file's length has been checked against its header.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "data/token_header.h"
#include "io/descriptor.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"

namespace lt {

struct TokenFile::Mapping {
  std::string path;
  Descriptor file;
  const unsigned char* bytes = nullptr;
  Size size = 0;   // of the file
  Size begin = 0;  // byte offset of the first token
  Size count = 0;
  int width = 2;

  explicit Mapping(std::string path) : path(std::move(path)) {}
  ~Mapping() {
    if (bytes != nullptr) ::munmap(const_cast<unsigned char*>(bytes), static_cast<std::size_t>(size));
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  void open();
  void read_header();
  void set_raw16();
  std::uint32_t token(Size i) const {
    const unsigned char* p = bytes + begin + i * width;
    return width == 2 ? load_u16(p) : load_u32(p);
  }
  // Throws if the file has changed size: touching a mapped page beyond the end of a shortened file raises SIGBUS.
  void require_unchanged() const;

  template <class... Args>
  [[noreturn]] void fail(Size offset, fmt::format_string<Args...> what, Args&&... args) const {
    throw DataError("data",
                    fmt::format("{}: offset {}: {}", path, offset, fmt::format(what, std::forward<Args>(args)...)),
                    "`ltrain prepare` writes token files; data.format=raw16 reads uint16 without a header");
  }
};

void TokenFile::Mapping::open() {
  // O_NONBLOCK: opening a FIFO does not block; it is refused below.
  file = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) {
    throw DataError("data", fmt::format("{}: expected a readable token file, found: {}", path, std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) {
    throw DataError("data", fmt::format("{}: expected a regular file, found a {}", path,
                                        S_ISDIR(status.st_mode) ? "folder" : "device or pipe"));
  }
  size = status.st_size;
  if (size == 0) fail(0, "expected tokens, found an empty file");
  void* mapped = ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) throw DataError("data", fmt::format("{}: cannot map: {}", path, std::strerror(errno)));
  bytes = static_cast<const unsigned char*>(mapped);
}

void TokenFile::Mapping::read_header() {
  // Check the magic number first: it gives the best error for a text file passed by mistake, however short.
  const auto field = [&](Size offset) { return static_cast<std::int32_t>(load_u32(bytes + offset)); };
  const TokenEncoding* encoding = nullptr;
  if (size >= 4) {
    for (const TokenEncoding& e : kTokenEncodings) encoding = e.magic == field(0) ? &e : encoding;
    if (encoding == nullptr) {
      fail(0, "expected magic number {} (uint16) or {} (uint32), found {}", kTokenEncodings[0].magic,
           kTokenEncodings[1].magic, field(0));
    }
  }
  if (size < kTokenHeaderBytes) fail(size, "expected a header of {} bytes, found {} bytes", kTokenHeaderBytes, size);
  if (field(4) != encoding->version) {
    fail(4, "expected version {} with magic number {}, found {}", encoding->version, encoding->magic, field(4));
  }
  if (field(8) < 0) fail(8, "expected a token count of at least 0, found {}", field(8));
  begin = kTokenHeaderBytes, width = encoding->width, count = field(8);
  const Size whole = begin + count * width;
  if (size != whole) {
    fail(std::min(size, whole), "expected {} bytes for {} tokens, found {} bytes: {}", whole, count, size,
         size < whole ? "the file is truncated" : "there are trailing bytes");
  }
}

void TokenFile::Mapping::set_raw16() {
  if (size % 2 != 0) fail(size - 1, "expected whole uint16 tokens, found {} bytes", size);
  begin = 0, width = 2, count = size / 2;
}

void TokenFile::Mapping::require_unchanged() const {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || status.st_size != size) {
    fail(std::min<Size>(size, status.st_size), "the file changed while it was in use: expected {} bytes, found {}",
         size, status.st_size);
  }
}

TokenFile::TokenFile(const std::string& path, TokenFormat format) {
  const auto mapping = std::make_shared<Mapping>(path);
  mapping->open();
  if (format == TokenFormat::raw16) {
    mapping->set_raw16();
  } else {
    mapping->read_header();
  }
  mapping_ = mapping;
}

const std::string& TokenFile::path() const { return mapping_->path; }
Size TokenFile::tokens() const { return mapping_->count; }

void TokenFile::read(Size begin, Size count, std::int32_t* out) const {
  const Mapping& file = *mapping_;
  if (begin < 0 || count < 0 || begin > file.count - count) {
    throw InternalError("data", fmt::format("{}: expected a range within {} tokens, got [{}, {})", file.path,
                                            file.count, begin, begin + count));
  }
  file.require_unchanged();
  for (Size i = 0; i < count; ++i) out[i] = static_cast<std::int32_t>(file.token(begin + i));
}

void TokenFile::require_below(std::int64_t vocab, Size begin, Size end) const {
  const Mapping& file = *mapping_;
  if (vocab > (file.width == 2 ? 0xffff : 0xffffffff)) return;
  file.require_unchanged();
  constexpr Size kChunk = 1 << 16;  // the maximum of a chunk vectorises, a search with an early exit does not
  for (Size first = begin; first < end; first += kChunk) {
    const Size last = std::min(end, first + kChunk);
    std::uint32_t highest = 0;
    for (Size i = first; i < last; ++i) highest = std::max(highest, file.token(i));
    if (highest < vocab) continue;
    Size i = first;
    while (file.token(i) < vocab) ++i;
    throw DataError("data",
                    fmt::format("{}: offset {}: expected a token below the vocabulary {}, found {} (token number {})",
                                file.path, file.begin + i * file.width, vocab, file.token(i), i),
                    "model.vocab must be at least the vocabulary of the tokenizer that prepared the file");
  }
}

}  // namespace lt
