// Ends a text that arrives in pieces before the first of several stop texts. Text that may begin a stop text is held
// back until the next pieces decide.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "libtrain/tokenizer/tokenizer.h"

namespace lt::run {

class StopText {
 public:
  // No text in `stops` may be empty.
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Adds a piece and returns the text that can be shown. Must not be called after has_stopped().
  std::string push(const std::string& piece);
  // Call it if the text ended without a stop text. Returns the text that was held back.
  std::string finish() { return std::exchange(pending_, {}); }
  // Like finish(), but first adds the rest of `stream`, which decodes the tokens. Returns empty text if has_stopped().
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
