// Chat templates: convert conversations to tokens.
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
  std::string role = {}, content = {};
  bool is_trained = true;  // for a message of the assistant: its tokens are targets
};

struct ChatTokens {
  Tokenizer::Ids ids;
  // For each id, true if the token is a target. Targets are the tokens that hold a byte of a trained message of the
  // assistant: of its content, of the space before the content, or of the text that ends its turn.
  std::vector<bool> trained;
};

// A named way to write conversations, for one tokenizer. docs/how-to/data.md shows the templates. Several threads may
// use one object at a time.
class ChatTemplate {
 public:
  // The tokenizer must outlive the template. Throws UsageError for an unknown name, and if the tokenizer has no token
  // for one of the template's marks (such as "<|im_start|>") or for the end of a turn.
  ChatTemplate(std::string_view name, const Tokenizer& tokenizer);

  // The names of all templates, and the roles of messages.
  static std::vector<std::string> names();
  static std::vector<std::string> roles();

  // Returns the text of a conversation. With `add_generation_prompt`, the text ends where the assistant's answer
  // begins. Throws UsageError for an unknown role.
  std::string render(std::span<const ChatMessage> messages, bool add_generation_prompt = false) const;
  // Returns the tokens of that text. The text is encoded in one piece, so a mark inside a message's content becomes the
  // token of that mark. Throws UsageError for an unknown role, and DataError like Tokenizer::encode().
  ChatTokens encode(std::span<const ChatMessage> messages, bool add_generation_prompt = false) const;

  // How a model's answer ended. none: it was cut off before its end. token: with end_of_turn_token(). text: with the
  // text of end_of_turn().
  enum class AnswerEnd { none, token, text };
  // Returns the tokens to append to such an answer: the missing rest of its turn, a turn of the user with `content`,
  // and the beginning of the assistant's next turn. Throws DataError like Tokenizer::encode().
  Tokenizer::Ids encode_next_turn(const std::string& content, AnswerEnd ended) const;

  // The text that ends the assistant's turn, and its token; nullopt if that is not always the same token.
  std::string end_of_turn() const;
  std::optional<std::uint32_t> end_of_turn_token() const;

 private:
  struct Row;
  struct Rendered;
  static std::span<const Row> rows();
  Rendered rendered(std::span<const ChatMessage> messages, bool add_generation_prompt) const;
  // True if the space before a content is part of the content's first token; false if tokens are bytes. Then an answer
  // begins with that space.
  bool space_belongs_to_content() const;

  const Row* row_;
  const Tokenizer& tokenizer_;
};

}  // namespace lt
