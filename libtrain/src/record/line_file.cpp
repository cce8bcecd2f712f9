// What a killed run left of a line is cut off.
#include "record/line_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "libtrain/error.h"

namespace lt {
namespace {

// The length up to and including the last newline.
off_t whole_lines(const AppendFile& file) {
  constexpr off_t kBlock = 4096;
  for (off_t end = file.size(); end > 0;) {
    const off_t begin = std::max<off_t>(0, end - kBlock);
    const std::size_t newline = file.read(begin, static_cast<std::size_t>(end - begin)).rfind('\n');
    if (newline != std::string::npos) return begin + static_cast<off_t>(newline) + 1;
    end = begin;
  }
  return 0;
}

void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::absolute(path).parent_path().string();
  const auto fail = [&](const char* what) {
    throw DataError("record", folder + ": " + what + ": " + std::strerror(errno));
  };
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("cannot open");
  const int result = ::fsync(fd);
  ::close(fd);
  if (result != 0) fail("cannot fsync");
}

}  // namespace

LineFile::LineFile(const std::string& path) : file_(path) {
  const off_t end = whole_lines(file_);
  if (end == 0) sync_folder_of(path);
  file_.cut(end);
}

}  // namespace lt
