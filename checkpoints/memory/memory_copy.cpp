// Creates or reuses, maps, seals and checksums the file of a copy.
#include "checkpoints/memory/memory_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "io/crc32c.h"
#include "io/descriptor.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr char kMagic[16] = "libtrain memory";
constexpr std::uint32_t kMemoryVersion = 2;
constexpr Size kPage = 4096;
constexpr Size kSummedPiece = Size{4} << 20;  // bytes summed between two checks of the seal

constexpr std::chrono::seconds kLockPatience{10};

Size whole_pages(Size bytes) { return (bytes + kPage - 1) / kPage * kPage; }

[[noreturn]] void fail(const fs::path& file, const std::string& what, int error, const std::string& hint = "") {
  throw DataError("checkpoint", fmt::format("{}: {}: {}", file.string(), what, std::strerror(error)), hint);
}

}  // namespace

struct MemoryCopy::Header {
  char magic[16];
  std::uint32_t version;
  std::int32_t rank, ranks;
  char run[64];
  Size layout_bytes, payload_offset, payload_bytes;
  // `step` repeats the seal's step. It is written last, and is 0 while the payload changes.
  CopySeal seal;
  std::atomic<Size> step;
  // The checksum of the payload that was sealed at `summed_step`.
  std::uint32_t crc;
  std::atomic<Size> summed_step;
  // The text of the program's state; 0 bytes, also in files of earlier versions: there is none.
  Size state_bytes;
  std::uint32_t state_crc;
};

// Owns a file and the mapping of all of it.
struct MemoryCopy::Mapping {
  Mapping(io::Descriptor opened, Size bytes) : file(std::move(opened)), bytes(bytes) {
    void* const at =
        ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (at != MAP_FAILED) memory = static_cast<std::byte*>(at);
  }
  ~Mapping() {
    if (memory != nullptr) ::munmap(memory, static_cast<std::size_t>(bytes));
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  io::Descriptor file;
  std::byte* memory = nullptr;  // null: errno has the reason
  Size bytes;
};

namespace {

io::Descriptor open_shared(const fs::path& path, int flags) {
  return io::Descriptor(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600));
}

bool lock(const io::Descriptor& file) { return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0; }

// A rank of an earlier start may live on for a moment and still write.
void lock_patiently(const io::Descriptor& file, const fs::path& path) {
  const auto end = std::chrono::steady_clock::now() + kLockPatience;
  while (!lock(file)) {
    if (std::chrono::steady_clock::now() > end) {
      throw DataError("checkpoint", path.string() + ": expected a copy of this start alone, another process writes it",
                      "ranks of an earlier start of this run may be stopped: end their processes");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

MemoryCopy::Header& MemoryCopy::header() const { return *reinterpret_cast<Header*>(mapping_->memory); }

MemoryCopy::~MemoryCopy() = default;

bool MemoryCopy::is_being_written(const fs::path& path) {
  const io::Descriptor file = open_shared(path, O_RDWR);
  return file.get() >= 0 && !lock(file);
}

MemoryCopy::MemoryCopy(fs::path path, std::unique_ptr<Mapping> mapping)
    : path_(std::move(path)), mapping_(std::move(mapping)) {}

std::unique_ptr<MemoryCopy> MemoryCopy::open(const fs::path& path) {
  io::Descriptor file = open_shared(path, O_RDWR);
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
      status.st_size < kPage || status.st_size > kMostCopyBytes) {
    return nullptr;
  }
  std::unique_ptr<MemoryCopy> copy(new MemoryCopy(path, std::make_unique<Mapping>(std::move(file), status.st_size)));
  if (copy->mapping_->memory == nullptr) return nullptr;
  const Header& header = copy->header();
  const Size bytes = status.st_size;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kMemoryVersion ||
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

bool MemoryCopy::fits(const fs::path& path, const CopyOwner& owner, const std::vector<CopyRange>& layout) {
  const auto there = open(path);
  return there != nullptr && there->owner_ == owner && there->layout_ == layout;
}

MemoryCopy::MemoryCopy(const fs::path& path, const CopyOwner& owner, const std::vector<CopyRange>& layout)
    : path_(path) {
  if (auto there = open(path)) {
    lock_patiently(there->mapping_->file, path);
    if (there->owner_ == owner && there->layout_ == layout) {
      mapping_ = std::move(there->mapping_);
      owner_ = there->owner_, layout_ = std::move(there->layout_);
      payload_ = there->payload_, payload_bytes_ = there->payload_bytes_;
      return;
    }
  }
  ::unlink(path.c_str());
  io::Descriptor file = open_shared(path, O_RDWR | O_CREAT | O_EXCL);
  if (file.get() < 0) fail(path, "cannot create", errno);
  lock_patiently(file, path);
  const std::string text = to_text(layout);
  payload_bytes_ = payload_bytes_of(layout);
  const Size payload_offset = whole_pages(kPage + static_cast<Size>(text.size()));
  const Size bytes = whole_pages(payload_offset + payload_bytes_);
  // Takes all memory now. Otherwise a full file system would end the process at a later write.
  int error = EINTR;  // a signal's
  while (error == EINTR) error = ::posix_fallocate(file.get(), 0, bytes);
  if (error != 0) {
    ::unlink(path.c_str());
    fail(path, fmt::format("cannot take {} bytes of shared memory", bytes), error, kWithoutMemory);
  }
  mapping_ = std::make_unique<Mapping>(std::move(file), bytes);
  if (mapping_->memory == nullptr) fail(path, "cannot map", errno);
  payload_ = mapping_->memory + payload_offset;
  owner_ = owner, layout_ = layout;
  Header& made = *new (mapping_->memory) Header{};
  std::memcpy(made.magic, kMagic, sizeof kMagic);
  made.version = kMemoryVersion, made.rank = owner.rank, made.ranks = owner.ranks;
  owner.run.copy(made.run, sizeof made.run - 1);
  made.layout_bytes = static_cast<Size>(text.size());
  made.payload_offset = payload_offset, made.payload_bytes = payload_bytes_;
  std::memcpy(mapping_->memory + kPage, text.data(), text.size());
}

void MemoryCopy::unseal() {
  header().step.store(0);
  header().summed_step.store(0);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before the first byte of the payload changes
}

Size MemoryCopy::state_offset() const { return whole_pages(header().payload_offset + header().payload_bytes); }

void MemoryCopy::seal(const CopySeal& seal, const std::string& state) {
  const io::Descriptor& file = mapping_->file;
  header().state_bytes = 0, header().state_crc = 0;
  if (!state.empty() &&
      (::lseek(file.get(), state_offset(), SEEK_SET) < 0 || !file.write(state.data(), state.size()))) {
    fail(path_, fmt::format("cannot take {} bytes of shared memory", state.size()), errno, kWithoutMemory);
  }
  header().state_bytes = static_cast<Size>(state.size());
  header().state_crc = io::crc32c(0, state.data(), state.size());
  header().seal = seal;
  header().step.store(seal.step, std::memory_order_release);
}

CopySeal MemoryCopy::sealed() const {
  const Header& here = header();
  const Size step = here.step.load(std::memory_order_acquire);
  return step > 0 && step == here.seal.step ? here.seal : CopySeal{};
}

std::optional<std::string> MemoryCopy::read_state() const {
  const Header& here = header();
  if (here.state_bytes < 0 || here.state_bytes > kMostCopyBytes) return std::nullopt;
  struct stat status {};
  const bool is_whole =
      ::fstat(mapping_->file.get(), &status) == 0 && here.state_bytes <= status.st_size - state_offset();
  if (here.state_bytes > 0 && !is_whole) return std::nullopt;
  std::string text(static_cast<std::size_t>(here.state_bytes), '\0');
  const bool is_read = mapping_->file.read_at(text.data(), text.size(), state_offset()) == text.size();
  if (!is_read || io::crc32c(0, text.data(), text.size()) != here.state_crc) return std::nullopt;
  return text;
}

std::string MemoryCopy::state() const {
  if (auto text = read_state()) return *std::move(text);
  throw DataError("checkpoint", path_.string() + ": expected the program's state as it was sealed, found other bytes");
}

std::optional<std::uint32_t> MemoryCopy::checksum(Size step, const std::function<bool()>& stop) const {
  const auto is_sealed = [&] { return header().step.load(std::memory_order_acquire) == step; };
  std::uint32_t crc = 0;
  for (Size at = 0; at < payload_bytes_; at += kSummedPiece) {
    if (!is_sealed() || stop()) return std::nullopt;
    crc = io::crc32c(crc, payload_ + at, static_cast<std::size_t>(std::min(kSummedPiece, payload_bytes_ - at)));
  }
  return is_sealed() ? std::optional(crc) : std::nullopt;
}

void MemoryCopy::add_checksum(const std::function<bool()>& stop) {
  const Size step = sealed().step;
  if (step == 0 || header().summed_step.load() == step) return;
  const auto crc = checksum(step, stop);
  if (!crc) return;
  header().crc = *crc;
  header().summed_step.store(step, std::memory_order_release);
}

bool MemoryCopy::is_as_sealed() const {
  const Header& here = header();
  const Size step = sealed().step;
  if (step == 0 || !read_state()) return false;
  if (here.summed_step.load(std::memory_order_acquire) != step) return true;
  return checksum(step, [] { return false; }) == here.crc;
}

}  // namespace lt::checkpoint
