// An id is the time of the draw and 64 random bits.
#include "checkpoints/format/run_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "io/entropy.h"
#include "libtrain/checkpoints/checkpoint.h"

namespace lt::checkpoint {

std::string draw_run_id() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%dT%H%M%SZ", &utc);
  return fmt::format("{}-{}", time, io::random_hex(16));
}

bool is_run_id(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), allowed);
}

std::string attempt_of(const std::string& run) { return run + "-" + io::random_hex(8); }

}  // namespace lt::checkpoint
