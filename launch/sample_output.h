// Writes generated texts to standard output: each is a prompt and its continuation. The first that has not ended is
// written as it grows, later ones once it has ended.
#pragma once

#include <string>
#include <vector>

#include "libtrain/tokenizer/tokenizer.h"
#include "run/stop_text.h"

namespace lt::launch {

// Several texts are separated by a line that holds only the ASCII character "record separator".
inline constexpr const char* kTextSeparator = "\x1e\n";

// Writes at once.
void write_out(const std::string& text);

class SampleOutput {
 public:
  // `prompts` has the prompt of each text. The tokenizer must outlive the output.
  SampleOutput(const Tokenizer& tokenizer, const std::vector<std::string>& prompts,
               const std::vector<std::string>& stops);

  // Adds a token to a text. Returns false once a stop text ended it, whose token must not be followed by others.
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
  std::size_t current_ = 0;  // all before it are written
};

}  // namespace lt::launch
