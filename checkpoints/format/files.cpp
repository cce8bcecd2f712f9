// Opens, syncs, names and removes the files of checkpoints.
#include "checkpoints/format/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "device/progress.h"
#include "io/file.h"

namespace lt::checkpoint {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void throw_errno(const std::string& name, const char* what, int error) {
  throw DataError("checkpoint", fmt::format("{}: {}: {}", name, what, std::strerror(error)));
}

io::CheckedFile named(const fs::path& path, io::Descriptor opened) {
  return {"checkpoint", path.filename(), std::move(opened)};
}

io::CheckedFile open_to_read(const fs::path& path, int flags) {
  return named(path, io::Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)));
}

// Also returns true if the file system does not support the call.
bool sync_range(const io::Descriptor& file, Size begin, Size bytes, unsigned flags) {
  if (::sync_file_range(file.get(), begin, bytes, flags) == 0) return true;
  return errno == ENOSYS || errno == EINVAL || errno == ESPIPE;
}

}  // namespace

void write_out(const io::CheckedFile& file) {
  const Size end = file.bytes();
  for (Size at = 0; at < end; at += kPieceBytes) {
    constexpr unsigned kAll = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (!sync_range(file.descriptor(), at, std::min(kPieceBytes, end - at), kAll)) file.fail("cannot fsync");
    device::count_progress();
  }
}

io::CheckedFile open_regular(const fs::path& path) {
  io::CheckedFile file = open_to_read(path, O_NONBLOCK);  // has no effect on regular files
  file.bytes();                                           // throws for anything else
  return file;
}

io::CheckedFile create_file(const fs::path& path) { return named(path, io::create_new(path)); }

bool begin_write_out(const io::Descriptor& file, Size begin, Size bytes) {
  constexpr Size kWorthACall = Size{1} << 20;
  return bytes < kWorthACall || sync_range(file, begin, bytes, SYNC_FILE_RANGE_WRITE);
}

Size file_bytes(const fs::path& file) { return open_regular(file).bytes(); }

void sync_file(const fs::path& path) {
  io::CheckedFile file = open_to_read(path, 0);
  write_out(file);
  file.sync();
  file.close();
}

void sync_folder(const fs::path& path) {
  if (!lt::io::sync_folder(path)) throw_errno(path.filename().string(), "cannot fsync", errno);
}

void remove_tree(const fs::path& path) {
  if (fs::is_directory(fs::symlink_status(path))) {
    const std::vector<fs::path> entries(fs::directory_iterator(path), fs::directory_iterator{});
    for (const fs::path& entry : entries) remove_tree(entry);
  }
  fs::remove(path);
  device::count_progress();
}

std::string read_text(const fs::path& path, Size limit) {
  const io::CheckedFile file = open_regular(path);
  const Size bytes = file.bytes();
  if (bytes > limit) {
    throw DataError("checkpoint",
                    fmt::format("{}: expected at most {} bytes, found {}", path.filename().string(), limit, bytes));
  }
  std::string text(static_cast<std::size_t>(bytes), '\0');
  file.read_at(text.data(), static_cast<Size>(text.size()), 0);
  return text;
}

void write_durably(const fs::path& path, std::string_view text) {
  io::CheckedFile file = create_file(path);
  file.write(text.data(), text.size());
  file.sync();
  file.close();
}

void rename_durably(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    throw_errno(from.filename().string(), ("cannot rename to " + to.filename().string()).c_str(), errno);
  }
  sync_folder(to.parent_path());
}

void require_new_or_empty(const fs::path& folder) {
  const fs::file_status status = fs::symlink_status(folder);
  if (!fs::exists(status) || (fs::is_directory(status) && fs::is_empty(folder))) return;
  throw DataError("checkpoint",
                  fmt::format("{}: expected a new name or an empty folder, found a {}", folder.string(),
                              fs::is_symlink(status)     ? "link"
                              : fs::is_directory(status) ? "folder that holds files"
                                                         : "file"),
                  "choose another --out, or remove its contents");
}

void make_folders_durably(const fs::path& folder) {
  if (folder.empty() || fs::is_directory(folder)) return;
  const fs::path parent = fs::absolute(folder).lexically_normal().parent_path();
  make_folders_durably(parent);
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) {
    throw_errno(fs::absolute(folder).string(), "cannot create the folder", errno);
  }
  sync_folder(parent);
}

}  // namespace lt::checkpoint
