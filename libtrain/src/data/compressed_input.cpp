// Decompresses gzip and zstd inputs of one or several members. No other file includes zlib or libzstd.
#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>
#include <utility>

#include "data/input_stream.h"
#include "libtrain/error.h"

namespace lt::data {
namespace {

// The stored bytes, piece by piece.
class Pieces {
 public:
  explicit Pieces(std::unique_ptr<StoredBytes> file) : file_(std::move(file)) {}

  // After the end of the data: passes over zeros up to the end of the file, as tapes and disks pad files. `rest` is
  // what is left of the piece. Throws DataError if there is anything else.
  void pass_over_padding(const char* format, std::string_view rest) {
    const Size end = offset() - static_cast<Size>(rest.size());
    while (!rest.empty()) {
      if (rest.find_first_not_of('\0') != std::string_view::npos) {
        throw DataError("data",
                        fmt::format("{}: offset {}: expected {} data, found bytes behind the end of the data",
                                    file_->path(), end, format),
                        fmt::format("`head -c {} FILE` is the file without them", end));
      }
      const auto [piece, size] = next();
      rest = {piece, size};
    }
  }
  // The next piece; empty at the end.
  std::pair<char*, std::size_t> next() { return {bytes_.data(), file_->read(bytes_.data(), bytes_.size())}; }
  Size offset() const { return file_->offset(); }
  // `unread`: bytes of the piece that were not looked at.
  [[noreturn]] void fail(const char* format, std::size_t unread, std::string_view found) const {
    throw DataError("data", fmt::format("{}: offset {}: expected {} data, found {}", file_->path(),
                                        offset() - static_cast<Size>(unread), format, found));
  }

 private:
  std::unique_ptr<StoredBytes> file_;
  std::array<char, std::size_t{1} << 17> bytes_;
};

// The first byte of a member, and of a frame or one that is skipped (RFC 1952, RFC 8878).
constexpr unsigned char kGzipBegins = 0x1f;
bool begins_zstd(unsigned char first) { return first == 0x28 || (first >= 0x50 && first < 0x60); }

constexpr const char* kTruncated = "the end of the file: it is truncated";

class GzipInput final : public InputStream {
 public:
  explicit GzipInput(std::unique_ptr<StoredBytes> file) : pieces_(std::move(file)) {
    constexpr int kGzipHeader = 16;
    if (inflateInit2(&state_, MAX_WBITS + kGzipHeader) != Z_OK) throw std::bad_alloc();
  }
  ~GzipInput() override { inflateEnd(&state_); }

  std::size_t read(char* to, std::size_t bytes) override {
    state_.next_out = reinterpret_cast<Bytef*>(to);
    state_.avail_out = static_cast<uInt>(std::min<std::size_t>(bytes, std::size_t{1} << 30));
    const uInt wanted = state_.avail_out;
    while (state_.avail_out == wanted) {
      if (state_.avail_in == 0) {
        const auto [piece, size] = pieces_.next();
        if (size == 0 && inside_) pieces_.fail("gzip", 0, kTruncated);
        if (size == 0) return 0;
        state_.next_in = reinterpret_cast<Bytef*>(piece), state_.avail_in = static_cast<uInt>(size);
      }
      if (!inside_ && *state_.next_in != kGzipBegins) {
        pieces_.pass_over_padding("gzip", {reinterpret_cast<const char*>(state_.next_in), state_.avail_in});
        state_.avail_in = 0;
        return 0;
      }
      inside_ = true;
      const int result = inflate(&state_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        inflateReset(&state_);
        inside_ = false;
      } else if (result == Z_MEM_ERROR) {
        throw std::bad_alloc();
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        pieces_.fail("gzip", state_.avail_in, state_.msg != nullptr ? state_.msg : zError(result));
      }
    }
    return wanted - state_.avail_out;
  }
  Size stored_offset() const override { return pieces_.offset(); }

 private:
  Pieces pieces_;
  z_stream state_{};
  bool inside_ = true;  // of a member; a file without any is truncated
};

class ZstdInput final : public InputStream {
 public:
  explicit ZstdInput(std::unique_ptr<StoredBytes> file) : pieces_(std::move(file)), state_(ZSTD_createDStream()) {
    if (state_ == nullptr) throw std::bad_alloc();
    // `zstd --long` makes windows of up to 2 GiB.
    ZSTD_DCtx_setParameter(state_, ZSTD_d_windowLogMax, ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound);
  }
  ~ZstdInput() override { ZSTD_freeDStream(state_); }
  ZstdInput(const ZstdInput&) = delete;
  ZstdInput& operator=(const ZstdInput&) = delete;

  std::size_t read(char* to, std::size_t bytes) override {
    ZSTD_outBuffer out{to, bytes, 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size && !holds_more_) {
        const auto [piece, size] = pieces_.next();
        if (size == 0 && inside_) pieces_.fail("zstd", 0, kTruncated);
        if (size == 0) return 0;
        in_ = {piece, size, 0};
      }
      const std::string_view rest(static_cast<const char*>(in_.src) + in_.pos, in_.size - in_.pos);
      if (!inside_ && !begins_zstd(static_cast<unsigned char>(rest.front()))) {
        pieces_.pass_over_padding("zstd", rest);
        in_.pos = in_.size;
        return 0;
      }
      const std::size_t result = ZSTD_decompressStream(state_, &out, &in_);
      if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      if (ZSTD_isError(result) != 0) pieces_.fail("zstd", in_.size - in_.pos, ZSTD_getErrorName(result));
      inside_ = result != 0;
      holds_more_ = inside_ && out.pos == out.size;
    }
    return out.pos;
  }
  Size stored_offset() const override { return pieces_.offset(); }

 private:
  Pieces pieces_;
  ZSTD_DStream* state_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool inside_ = true;  // of a frame; a file without any is truncated
  bool holds_more_ = false;
};

}  // namespace

std::unique_ptr<InputStream> decompress_gzip(std::unique_ptr<StoredBytes> file) {
  return std::make_unique<GzipInput>(std::move(file));
}

std::unique_ptr<InputStream> decompress_zstd(std::unique_ptr<StoredBytes> file) {
  return std::make_unique<ZstdInput>(std::move(file));
}

}  // namespace lt::data
