// Uses O_EXCL to create files, and fsync on folders.
#include "io/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace lt {
namespace {

// Some file systems cannot sync a folder, such as that of VirtualBox's shared folders.
bool has_no_fsync(int error) { return error == EINVAL || error == ENOTSUP || error == ENOSYS; }

}  // namespace

Descriptor create_new(const std::string& path, unsigned mode) {
  return Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
}

bool sync_folder(const std::filesystem::path& folder) {
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return opened.is_open() && (::fsync(opened.get()) == 0 || has_no_fsync(errno));
}

}  // namespace lt
