// Reads to the end of a file regardless of its reported size, because files grow and files in /proc report size 0.
#include "io/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "io/descriptor.h"
#include "libtrain/error.h"

namespace lt::io {

FileText read_file(const std::string& path, bool only_regular, std::size_t most_bytes) {
  constexpr std::size_t kLeast = 4096;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | (only_regular ? O_NONBLOCK : 0)));
  struct stat status {};
  const auto failure = [] { return FileText{"", std::strerror(errno), errno}; };
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) return failure();
  if (S_ISDIR(status.st_mode)) return {"", "a folder"};
  if (only_regular && !S_ISREG(status.st_mode)) return {"", "a device or pipe"};
  const auto expected = S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) : 0;
  std::string text;
  std::size_t done = 0;
  for (;;) {
    if (std::max(done, expected) > most_bytes) return {"", "more than " + std::to_string(most_bytes) + " bytes"};
    if (done == text.size()) text.resize(done == 0 ? std::max(expected + 1, kLeast) : 2 * done);
    const ssize_t got = ::read(file.get(), text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure();
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return {std::move(text), ""};
}

std::string read_whole_file(const std::string& component, const std::string& path) {
  FileText file = read_file(path);
  if (!file.problem.empty()) throw DataError(component, path + ": expected a readable file, found: " + file.problem);
  return std::move(file.text);
}

}  // namespace lt::io
