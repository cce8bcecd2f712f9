// Files of shared memory: made, mapped, sealed.
#include "memory_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <type_traits>

#include "core/crc32c.h"
#include "libtrain/error.h"
#include "libtrain/memory.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr char kMagic[16] = "libtrain memory";
constexpr std::uint32_t kVersion = 1;
constexpr Size kPage = 4096;
constexpr Size kPiece = Size{4} << 20;      // bytes under one look at the seal
constexpr Size kMostBytes = Size{1} << 46;  // of a file: more is no file of ours

Size round_up(Size bytes, Size unit) { return (bytes + unit - 1) / unit * unit; }

[[noreturn]] void fail(const fs::path& file, const std::string& what, int error, const std::string& hint = "") {
  throw DataError("checkpoint", fmt::format("{}: {}: {}", file.string(), what, std::strerror(error)), hint);
}

std::string text_of(const std::vector<CopyRange>& layout) {
  std::string text;
  for (const CopyRange& range : layout) {
    text += fmt::format("{} {} {} {} {}\n", kStateKindNames[static_cast<std::size_t>(range.kind)], range.begin,
                        range.end, range.offset, range.parameter);
  }
  return text;
}

// None where the text is no layout of that many bytes.
std::optional<std::vector<CopyRange>> layout_of(const std::string& text, Size payload_bytes) {
  std::vector<CopyRange> layout;
  std::istringstream lines(text);
  for (std::string kind; lines >> kind;) {
    CopyRange range{};
    const auto found = std::find(kStateKindNames.begin(), kStateKindNames.end(), kind);
    if (found == kStateKindNames.end() || !(lines >> range.begin >> range.end >> range.offset)) return std::nullopt;
    range.kind = static_cast<StateKind>(found - kStateKindNames.begin());
    lines.get();
    std::getline(lines, range.parameter);
    const bool inside = range.begin >= 0 && range.begin <= range.end && range.offset >= 0 &&
                        range.offset % Size{sizeof(float)} == 0 &&
                        range.end - range.begin <= (payload_bytes - range.offset) / Size{sizeof(float)};
    if (!inside) return std::nullopt;
    layout.push_back(std::move(range));
  }
  return layout;
}

}  // namespace

struct MemoryCopy::Header {
  char magic[16];
  std::uint32_t version;
  std::int32_t rank, ranks;
  char run[64];
  Size layout_bytes, payload_offset, payload_bytes;
  // The seal; its step is written last, and is 0 while the payload changes.
  Size samples;
  double loss_scale;
  Size loss_scale_steps, skipped;
  std::atomic<Size> step;
  // Of the payload sealed at `summed_step`.
  std::uint32_t crc;
  std::atomic<Size> summed_step;
};

// Owns the mapping of a whole file.
struct MemoryCopy::Mapping {
  Mapping(const fs::path& file, int fd, Size bytes) : bytes(bytes) {
    void* const at = ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) fail(file, "cannot map", errno);
    memory = static_cast<std::byte*>(at);
  }
  ~Mapping() { ::munmap(memory, static_cast<std::size_t>(bytes)); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* memory = nullptr;
  Size bytes;
};

namespace {

class File {
 public:
  File(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::vector<CopyRange> copy_layout(const std::vector<StateRange>& ranges) {
  std::vector<CopyRange> layout;
  Size at = 0;
  for (const StateRange& range : ranges) {
    layout.push_back({range.parameter, range.kind, range.begin, range.end, at});
    at += round_up((range.end - range.begin) * Size{sizeof(float)}, kAllocationAlignment);
  }
  return layout;
}

Size copy_bytes_of(const std::vector<CopyRange>& layout) {
  if (layout.empty()) return kAllocationAlignment;
  const CopyRange& last = layout.back();
  return round_up(last.offset + (last.end - last.begin) * Size{sizeof(float)}, kAllocationAlignment);
}

MemoryCopy::Header& MemoryCopy::header() const { return *reinterpret_cast<Header*>(mapping_->memory); }

MemoryCopy::~MemoryCopy() = default;

MemoryCopy::MemoryCopy(std::unique_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}

std::unique_ptr<MemoryCopy> MemoryCopy::open(const fs::path& path) {
  const File file(path, O_RDWR);
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      status.st_size < kPage || status.st_size > kMostBytes) {
    return nullptr;
  }
  std::unique_ptr<MemoryCopy> copy(new MemoryCopy(std::make_unique<Mapping>(path, file.get(), status.st_size)));
  const Header& header = copy->header();
  const Size bytes = status.st_size;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kVersion ||
      header.run[sizeof header.run - 1] != '\0' || header.layout_bytes < 0 || header.layout_bytes > bytes - kPage ||
      header.payload_offset < kPage + header.layout_bytes || header.payload_offset > bytes ||
      header.payload_bytes < 0 || header.payload_bytes > bytes - header.payload_offset) {
    return nullptr;
  }
  const auto* text = reinterpret_cast<const char*>(copy->mapping_->memory + kPage);
  auto layout = layout_of({text, static_cast<std::size_t>(header.layout_bytes)}, header.payload_bytes);
  if (!layout) return nullptr;
  copy->owner_ = {header.run, header.rank, header.ranks};
  copy->layout_ = std::move(*layout);
  copy->payload_ = copy->mapping_->memory + header.payload_offset;
  copy->payload_bytes_ = header.payload_bytes;
  return copy;
}

MemoryCopy::MemoryCopy(const fs::path& path, const CopyOwner& owner, const std::vector<CopyRange>& layout) {
  const std::string text = text_of(layout);
  if (auto there = open(path)) {
    const Header& header = there->header();
    const auto* const text_there = reinterpret_cast<const char*>(there->mapping_->memory + kPage);
    if (there->owner_ == owner && text == std::string(text_there, static_cast<std::size_t>(header.layout_bytes))) {
      mapping_ = std::move(there->mapping_);
      owner_ = there->owner_, layout_ = std::move(there->layout_);
      payload_ = there->payload_, payload_bytes_ = there->payload_bytes_;
      return;
    }
  }
  ::unlink(path.c_str());
  const File file(path, O_RDWR | O_CREAT | O_EXCL);
  if (file.get() < 0) fail(path, "cannot create", errno);
  payload_bytes_ = copy_bytes_of(layout);
  const Size payload_offset = round_up(kPage + static_cast<Size>(text.size()), kPage);
  const Size bytes = round_up(payload_offset + payload_bytes_, kPage);
  // Without it a full file system would end the process at a later write.
  if (const int error = ::posix_fallocate(file.get(), 0, bytes); error != 0) {
    ::unlink(path.c_str());
    fail(path, fmt::format("cannot take {} bytes of shared memory", bytes), error,
         "--checkpoint.memory_every=0 does without; a container's share is set by its --shm-size");
  }
  mapping_ = std::make_unique<Mapping>(path, file.get(), bytes);
  payload_ = mapping_->memory + payload_offset;
  owner_ = owner, layout_ = layout;
  Header& made = *new (mapping_->memory) Header{};
  std::memcpy(made.magic, kMagic, sizeof kMagic);
  made.version = kVersion, made.rank = owner.rank, made.ranks = owner.ranks;
  owner.run.copy(made.run, sizeof made.run - 1);
  made.layout_bytes = static_cast<Size>(text.size());
  made.payload_offset = payload_offset, made.payload_bytes = payload_bytes_;
  std::memcpy(mapping_->memory + kPage, text.data(), text.size());
}

void MemoryCopy::unseal() {
  header().step.store(0, std::memory_order_seq_cst);  // before the first byte of the payload changes
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void MemoryCopy::seal(const CopySeal& seal) {
  Header& here = header();
  here.samples = seal.samples, here.loss_scale = seal.loss_scale;
  here.loss_scale_steps = seal.loss_scale_steps, here.skipped = seal.skipped;
  here.step.store(seal.step, std::memory_order_release);
}

CopySeal MemoryCopy::sealed() const {
  const Header& here = header();
  const Size step = here.step.load(std::memory_order_acquire);
  return {step, here.samples, here.loss_scale, here.loss_scale_steps, here.skipped};
}

std::optional<std::uint32_t> MemoryCopy::checksum(Size step, const std::function<bool()>& stop) const {
  const auto is_sealed = [&] { return header().step.load(std::memory_order_acquire) == step; };
  std::uint32_t crc = 0;
  for (Size at = 0; at < payload_bytes_; at += kPiece) {
    if (!is_sealed() || stop()) return std::nullopt;
    crc = crc32c(crc, payload_ + at, static_cast<std::size_t>(std::min(kPiece, payload_bytes_ - at)));
  }
  return is_sealed() ? std::optional(crc) : std::nullopt;
}

void MemoryCopy::add_checksum(const std::function<bool()>& stop) {
  const Size step = sealed().step;
  const auto crc = step == 0 ? std::nullopt : checksum(step, stop);
  if (!crc) return;
  header().crc = *crc;
  header().summed_step.store(step, std::memory_order_release);
}

bool MemoryCopy::is_as_sealed() const {
  const Header& here = header();
  const Size step = sealed().step;
  if (step == 0) return false;
  if (here.summed_step.load(std::memory_order_acquire) != step) return true;
  return checksum(step, [] { return false; }) == here.crc;
}

}  // namespace lt::checkpoint
