// Writes and reads the folder of a run of `prepare`.
#include "data/spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/token_header.h"
#include "io/file.h"
#include "io/lacks_locks.h"
#include "io/whole_file.h"
#include "libtrain/error.h"

namespace lt::data {
namespace {

constexpr const char *kTokens = "tokens", *kTargets = "targets", *kDocuments = "documents", *kState = "state.json";

// The numbers of a state, with their names.
template <class State>
auto numbers_of(State& state) {
  return std::array<std::pair<const char*, decltype(&state.tokens)>, 10>{{{"input", &state.position.input},
                                                                          {"offset", &state.position.offset},
                                                                          {"line", &state.position.line},
                                                                          {"document_tokens", &state.position.tokens},
                                                                          {"tokens", &state.tokens},
                                                                          {"documents", &state.documents},
                                                                          {"masked", &state.masked},
                                                                          {"bytes", &state.bytes},
                                                                          {"conversations", &state.conversations},
                                                                          {"untrained", &state.untrained}}};
}

io::Descriptor open_spool_file(const std::string& path) {
  return io::Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
}

}  // namespace

void Spool::require(bool done, const char* name, const char* what) const {
  if (!done) throw DataError("data", fmt::format("{}: {}: {}", path(name), what, std::strerror(errno)));
}

Spool::Spool(const std::string& folder, std::string identity, const SpoolShape& shape,
             const std::function<void()>& on_new)
    : folder_(folder), identity_(std::move(identity)), shape_(shape) {
  require(::mkdir(folder.c_str(), 0755) == 0 || errno == EEXIST, "", "cannot create the folder");
  lock_ = open_spool_file(path("lock"));
  require(lock_.is_open(), "lock", "cannot open");
  const bool is_locked = ::flock(lock_.get(), LOCK_EX | LOCK_NB) == 0, is_taken = !is_locked && errno == EWOULDBLOCK;
  require(is_locked || is_taken || io::lacks_locks(errno), "lock", "cannot lock");
  // Another process may have removed the folder between the opening and the lock.
  struct stat held {
  }, there{};
  if (is_taken || ::fstat(lock_.get(), &held) != 0 || ::stat(path("lock").c_str(), &there) != 0 ||
      held.st_ino != there.st_ino || held.st_dev != there.st_dev) {
    throw UsageError("data", fmt::format("{}: another `prepare` is writing there", folder));
  }
  resumed_ = load();
  if (!resumed_) {
    on_new();
    state_ = {};
    ::unlink(path(kState).c_str());
  }
  io::remove_pending(path(kState));
  const auto open_at = [&](bool wanted, const char* name, Size bytes) {
    if (!wanted) return io::Descriptor();
    io::Descriptor file = open_spool_file(path(name));
    require(file.is_open(), name, "cannot open");
    require(::ftruncate(file.get(), bytes) == 0 && ::lseek(file.get(), 0, SEEK_END) >= 0, name, "cannot truncate");
    return file;
  };
  tokens_ = open_at(true, kTokens, state_.tokens * shape.width);
  targets_ = open_at(shape.has_targets, kTargets, state_.tokens);
  documents_ = open_at(shape.has_documents, kDocuments, state_.documents * 8);
}

// Whether there is a state of the same identity, with its files.
bool Spool::load() {
  if (identity_.empty()) return false;
  const auto json = nlohmann::json::parse(io::read_file(path(kState), true).text, nullptr, false);
  if (!json.is_object() || json.value("identity", nlohmann::json()) != identity_) return false;
  for (const auto& [name, number] : numbers_of(state_)) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_unsigned() || found->get<Size>() < 0) return false;
    *number = found->get<Size>();
  }
  const auto highest = json.find("highest");
  if (highest == json.end() || !highest->is_number_unsigned()) return false;
  state_.highest = highest->get<std::uint32_t>();
  const auto unused = json.find("unused");
  if (unused == json.end() || !unused->is_object()) return false;
  for (const auto& [field, count] : unused->items()) {
    if (!count.is_number_unsigned()) return false;
    state_.unused[field] = count.get<Size>();
  }
  const auto holds = [&](bool wanted, const char* name, Size bytes) {
    struct stat status {};
    return !wanted || (::stat(path(name).c_str(), &status) == 0 && status.st_size >= bytes);
  };
  return holds(true, kTokens, state_.tokens * shape_.width) && holds(shape_.has_targets, kTargets, state_.tokens) &&
         holds(shape_.has_documents, kDocuments, state_.documents * 8);
}

void Spool::append(const EncodedPiece& piece) {
  const auto width = static_cast<std::size_t>(shape_.width);
  constexpr std::size_t kIdsAtOnce = std::size_t{1} << 18;
  for (std::size_t begin = 0; begin < piece.ids.size(); begin += kIdsAtOnce) {
    const std::size_t count = std::min(kIdsAtOnce, piece.ids.size() - begin);
    bytes_.resize(count * width);
    for (std::size_t i = 0; i < count; ++i) {
      store_uint(bytes_.data() + i * width, piece.ids[begin + i], shape_.width);
      state_.highest = std::max(state_.highest, piece.ids[begin + i]);
    }
    require(tokens_.write(bytes_.data(), bytes_.size()), kTokens, "cannot write");
  }
  if (shape_.has_targets) {
    require(targets_.write(piece.targets.data(), piece.targets.size()), kTargets, "cannot write");
    state_.masked += std::count(piece.targets.begin(), piece.targets.end(), 0);
  }
  if (shape_.has_documents) {
    const std::vector<std::uint64_t> lengths(piece.documents.begin(), piece.documents.end());
    require(documents_.write(lengths.data(), lengths.size() * 8), kDocuments, "cannot write");
  }
  state_.tokens += static_cast<Size>(piece.ids.size());
  state_.documents += static_cast<Size>(piece.documents.size());
  state_.bytes += piece.bytes;
  state_.conversations += piece.conversations, state_.untrained += piece.untrained;
  for (const auto& [field, count] : piece.unused) count_unused(state_.unused, field, count);
}

void Spool::save(const InputPosition& position) {
  state_.position = position;
  const auto flush = [&](const io::Descriptor& file, const char* name) {
    if (file.is_open()) require(::fdatasync(file.get()) == 0, name, "cannot fsync");
  };
  flush(tokens_, kTokens), flush(targets_, kTargets), flush(documents_, kDocuments);
  nlohmann::json json = {{"identity", identity_}, {"highest", state_.highest}, {"unused", state_.unused}};
  for (const auto& [name, number] : numbers_of(state_)) json[name] = *number;
  io::write_whole_file("data", path(kState), json.dump() + "\n");
  saved_ = true;
}

void Spool::read(const io::Descriptor& file, const char* name, Size offset, void* to, std::size_t bytes) const {
  if (file.read_at(to, bytes, offset) == bytes) return;
  require(errno == 0, name, "cannot read");
  throw DataError("data", fmt::format("{}: was shortened while it was in use", path(name)));
}

void Spool::read_tokens(Size begin, std::span<std::uint32_t> to) const {
  std::vector<unsigned char> bytes(to.size() * static_cast<std::size_t>(shape_.width));
  read(tokens_, kTokens, begin * shape_.width, bytes.data(), bytes.size());
  const unsigned char* from = bytes.data();
  for (std::uint32_t& token : to) token = shape_.width == 2 ? load_u16(from) : load_u32(from), from += shape_.width;
}

void Spool::read_targets(Size begin, std::span<std::uint8_t> to) const {
  if (!shape_.has_targets) return std::fill(to.begin(), to.end(), std::uint8_t{1});
  read(targets_, kTargets, begin, to.data(), to.size());
}

void Spool::read_documents(Size begin, std::span<std::uint64_t> to) const {
  read(documents_, kDocuments, begin * 8, to.data(), to.size() * 8);
}

}  // namespace lt::data
