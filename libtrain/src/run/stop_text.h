// Ends a text that comes piece by piece before the first of several stop texts. A piece that may begin a stop text is
// held back until it is clear.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libtrain/tokenizer/tokenizer.h"

namespace lt::run {

class StopText {
 public:
  // `stops` are not empty texts.
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Adds a piece and returns what can be shown. Must not be called once the text has stopped.
  std::string push(const std::string& piece);
  // The text ended by itself: returns what was held back.
  std::string finish() { return std::exchange(pending_, {}); }
  // The same where tokens made the text: with what `stream` still holds. Empty once the text has stopped.
  std::string finish(TextStream& stream) {
    if (has_stopped_) return {};
    std::string text = push(stream.finish());
    return has_stopped_ ? text : text + finish();
  }
  bool has_stopped() const { return has_stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string pending_;
  bool has_stopped_ = false;
};

}  // namespace lt::run
