// O_EXCL on a random name.
#include "core/new_file.h"

#include <fcntl.h>

#include <random>

namespace lt {

std::string random_hex(std::size_t digits) {
  std::random_device source;
  std::string text;
  while (text.size() < digits) text += "0123456789abcdef"[source() & 15u];
  return text;
}

NewFile create_beside(const std::string& path) {
  NewFile file{-1, path + ".tmp-" + random_hex(16)};
  file.fd = ::open(file.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  return file;
}

}  // namespace lt
