// Expands glob patterns in lists of input files.
#include "data/file_list.h"

#include <glob.h>
#include <unistd.h>

#include <algorithm>

#include "libtrain/error.h"

namespace lt::data {
namespace {

struct Matches {
  glob_t list{};
  ~Matches() { ::globfree(&list); }
};

}  // namespace

std::vector<std::string> expand_files(const std::vector<std::string>& files) {
  std::vector<std::string> paths;
  for (const std::string& file : files) {
    if (file.find_first_of("*?[") == std::string::npos || ::access(file.c_str(), F_OK) == 0) {
      paths.push_back(file);
      continue;
    }
    Matches matches;
    const int result = ::glob(file.c_str(), GLOB_ERR, nullptr, &matches.list);
    if (result == GLOB_NOMATCH)
      throw DataError("data", file + ": expected at least one file, the pattern matches none");
    if (result != 0) throw DataError("data", file + ": a folder of the pattern cannot be read");
    const auto first = paths.insert(paths.end(), matches.list.gl_pathv, matches.list.gl_pathv + matches.list.gl_pathc);
    // glob() sorts by locale, and the order of the data must not depend on it.
    std::sort(first, paths.end());
  }
  return paths;
}

}  // namespace lt::data
