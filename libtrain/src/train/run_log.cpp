// Events of a run as JSON lines.
#include "train/run_log.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "libtrain/error.h"

namespace lt {

void RunLog::event(const nlohmann::ordered_json& event) { row(event.dump()); }

std::string RunLog::in_folder(const std::string& folder, const std::string& file) const {
  const std::string path = folder_ + "/" + folder;
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) throw DataError("record", path + ": cannot create: " + failed.message());
  return path + "/" + file;
}

}  // namespace lt
