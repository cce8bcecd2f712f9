// Finds stop texts, also across pieces.
#include "run/stop_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace lt::run {

std::string StopText::push(const std::string& piece) {
  pending_ += piece;
  std::size_t shown = pending_.size();
  for (const std::string& stop : stops_) {
    if (const std::size_t at = pending_.find(stop); at != pending_.npos) {
      has_stopped_ = true;
      shown = std::min(shown, at);
    }
  }
  if (has_stopped_) return std::exchange(pending_, {}).substr(0, shown);
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, pending_.size()); length > 0; --length) {
      if (!std::string_view(pending_).ends_with(std::string_view(stop).substr(0, length))) continue;
      shown = std::min(shown, pending_.size() - length);
      break;
    }
  }
  std::string text = pending_.substr(0, shown);
  pending_.erase(0, shown);
  return text;
}

}  // namespace lt::run
