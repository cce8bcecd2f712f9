// Opens a file of lines and cuts off the torn last line of a killed run.
#include "record/line_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "io/file.h"
#include "libtrain/error.h"

namespace lt::recorder {
namespace {

// The length in bytes up to and including the last newline.
Size whole_lines(const io::AppendFile& file) {
  constexpr Size kBlock = 4096;
  for (Size end = file.size(); end > 0;) {
    const Size begin = std::max<Size>(0, end - kBlock);
    const std::size_t newline = file.read(begin, end - begin).rfind('\n');
    if (newline != std::string::npos) return begin + static_cast<Size>(newline) + 1;
    end = begin;
  }
  return 0;
}

void make_name_durable(const std::string& path) {
  const auto folder = std::filesystem::absolute(path).parent_path();
  if (!io::sync_folder(folder)) throw DataError("record", folder.string() + ": cannot fsync: " + std::strerror(errno));
}

}  // namespace

LineFile::LineFile(const std::string& path) : file_("record", path) {
  const Size end = whole_lines(file_);
  if (end == 0) make_name_durable(path);
  file_.cut(end);
}

}  // namespace lt::recorder
