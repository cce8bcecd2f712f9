// Conversations as tokens, by named templates.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/tokenizer/tokenizer.h"

namespace LT_API lt {

struct ChatMessage {
  std::string role, content;
  bool is_trained = true;  // whether the tokens of an assistant's message are targets
};

struct ChatTokens {
  Tokenizer::Ids ids;
  // As many as ids: whether each token has a byte of the content of an assistant's message that is trained, of a space
  // before it, or of what ends the turn.
  std::vector<bool> trained;
};

// Writes conversations in one way, for one tokenizer. Several threads may use it at a time.
class ChatTemplate {
 public:
  // The tokenizer must outlive the template. Throws UsageError for a name that is not known, and if the tokenizer has
  // no token for a mark of the template or for what ends a turn.
  ChatTemplate(std::string_view name, const Tokenizer& tokenizer);

  // The names of all templates, and the roles that a message may have.
  static std::vector<std::string> names();
  static std::vector<std::string> roles();

  // The text of a conversation. Throws UsageError for another role.
  std::string render(std::span<const ChatMessage> messages, bool add_generation_prompt = false) const;
  // The tokens of that text, as of any text: marks that stand in a content are marks too. With `add_generation_prompt`
  // the assistant's answer comes next. Throws UsageError for another role, and DataError as Tokenizer::encode() does.
  ChatTokens encode(std::span<const ChatMessage> messages, bool add_generation_prompt = false) const;

  // How a model's answer ended: cut off, by end_of_turn_token(), or by the text of end_of_turn().
  enum class AnswerEnd { none, token, text };
  // The tokens that follow such an answer: what it lacks, the user's next turn, and what comes before the next answer.
  // Throws DataError as Tokenizer::encode() does.
  Tokenizer::Ids encode_next_turn(const std::string& content, AnswerEnd ended) const;

  // What ends the assistant's turn: a text, and its token if it is always the same one.
  std::string end_of_turn() const;
  std::optional<std::uint32_t> end_of_turn_token() const;

 private:
  struct Row;
  struct Rendered;
  static std::span<const Row> rows();
  Rendered rendered(std::span<const ChatMessage> messages, bool add_generation_prompt) const;
  // A space before a content is part of its first token, unless tokens are bytes. So an answer begins with it.
  bool space_belongs_to_content() const;

  const Row* row_;
  const Tokenizer& tokenizer_;
};

}  // namespace lt
