// A conversation with a trained model: each line of standard input is a user's turn, and the answer goes to standard
// output as it grows. What was said stays in the cache.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libtrain/generate/generate.h"
#include "libtrain/tokenizer/chat.h"

namespace lt::launch {

// What ends an answer: a token, or where the template has no token for it a text.
class EndOfTurn {
 public:
  EndOfTurn(const ChatTemplate& chat, const Tokenizer& tokenizer);

  bool is_end(std::uint32_t token) const { return token == turn_ || token == text_; }
  bool closes_turn(std::uint32_t token) const { return token == turn_; }
  // Adds the text to `stops` if there is no token.
  std::vector<std::string> with_text(std::vector<std::string> stops) const;
  const std::string& text() const { return words_; }

 private:
  std::optional<std::uint32_t> turn_, text_;  // of the turn; of any text
  std::string words_;
};

// Throws UsageError for a line with tokens outside the model's vocabulary.
GenerationTiming converse(LoadedModel& loaded, const ChatTemplate& chat, const SamplingOptions& sampling,
                          const std::vector<std::string>& stops);

// Warns on standard error if `what` has more tokens than the model has positions, and says how many are cut.
void warn_of_cut(const std::string& what, const Tokenizer::Ids& tokens, const LoadedModel& loaded);
// The tokens of a prompt; of an empty one the token that ends documents, if there is one. Throws UsageError for tokens
// outside the model's vocabulary.
Tokenizer::Ids tokens_of(const std::string& text, const LoadedModel& loaded);

}  // namespace lt::launch
