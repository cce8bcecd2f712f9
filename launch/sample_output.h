// Writes generated texts to standard output, in order. Each text is a prompt and its continuation. A text is written
// while it grows, as soon as all earlier texts have ended.
#pragma once

#include <string>
#include <vector>

#include "libtrain/tokenizer/tokenizer.h"
#include "run/stop_text.h"

namespace lt::launch {

// Separates texts: a line that holds only the ASCII character "record separator".
inline constexpr const char* kTextSeparator = "\x1e\n";

// Writes to standard output and flushes it.
void write_out(const std::string& text);

class SampleOutput {
 public:
  // `prompts` has one prompt per text. A text ends before the first of `stops` in it. The tokenizer must outlive this
  // object.
  SampleOutput(const Tokenizer& tokenizer, const std::vector<std::string>& prompts,
               const std::vector<std::string>& stops);

  // Adds a token to a text. Returns false if a stop text has ended the text. Then the caller must add no more tokens.
  bool push(Size text, std::uint32_t token);
  void end(Size text);
  // Ends all texts.
  void finish();

 private:
  struct Text {
    TextStream stream;
    run::StopText stop;
    std::string unwritten;
    bool has_ended = false;
  };

  void end_text(Text& text);
  void write_ready();

  std::vector<Text> texts_;
  std::size_t current_ = 0;  // first text that has not ended; earlier ones are written
};

}  // namespace lt::launch
