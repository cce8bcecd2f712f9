// Reads files of a run's folder as text.
#include "report/files.h"

#include <utility>

#include "io/whole_file.h"

namespace lt::report {

std::optional<std::string> file_text(const std::string& path, std::size_t at_most) {
  FileText file = read_file(path, true, at_most);
  if (!file.problem.empty()) return std::nullopt;
  return std::move(file.text);
}

}  // namespace lt::report
