// A conversation with a trained model. Each line of standard input is a user's turn. The answer goes to standard output
// while it is generated. The key/value cache keeps earlier turns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/generate/generate.h"
#include "libtrain/tokenizer/chat.h"

namespace lt::launch {

// Detects the end of an answer: the template's end-of-turn token or the end-of-text token. If the template has no
// end-of-turn token, its end-of-turn text ends the answer.
class EndOfTurn {
 public:
  EndOfTurn(const ChatTemplate& chat, const Tokenizer& tokenizer);

  bool is_end(std::uint32_t token) const { return token == turn_ || token == text_; }
  bool closes_turn(std::uint32_t token) const { return token == turn_; }
  // Returns `stops`, and adds the end-of-turn text if there is no end-of-turn token.
  std::vector<std::string> with_text(std::vector<std::string> stops) const;
  const std::string& text() const { return words_; }

 private:
  std::optional<std::uint32_t> turn_, text_;  // end-of-turn token; end-of-text token
  std::string words_;
};

// Answers the lines of standard input until it ends. Throws UsageError if a line has tokens outside the model's
// vocabulary.
GenerationTiming converse(LoadedModel& loaded, const ChatTemplate& chat, const SamplingOptions& sampling,
                          const std::vector<std::string>& stops);

// Warns on standard error if `what` has more tokens than the model has positions, and says how many are cut.
void warn_of_cut(const std::string& what, const Tokenizer::Ids& tokens, const LoadedModel& loaded);
// Returns the tokens of a prompt. For an empty prompt, returns the end-of-text token if the model knows it. Throws
// UsageError for tokens outside the model's vocabulary.
Tokenizer::Ids tokens_of(const std::string& text, const LoadedModel& loaded);

}  // namespace lt::launch
