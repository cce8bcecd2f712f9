// The table of chat templates, and the encoding of conversations by one of its rows.
#include "libtrain/tokenizer/chat.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "io/utf8.h"
#include "libtrain/error.h"
#include "tokenizer/white_space.h"

namespace lt {

// A message is before_role, role, before_content, content, end, after_end. Every mark "<|...|>" is one token.
struct ChatTemplate::Row {
  std::string_view name;
  std::string_view begin;  // of a conversation
  std::string_view before_role, before_content, end, after_end;
  bool trims;  // white space around a content
};

std::span<const ChatTemplate::Row> ChatTemplate::rows() {
  // As the templates of Llama 3, which writes the date into a system message that is left out here, and of ChatML.
  static constexpr Row kRows[] = {
      // clang-format off
      // name    begin                before_role            before_content             end             after_end  trims
      {"llama3", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", "",   true},
      {"chatml", "",                  "<|im_start|>",        "\n",                    "<|im_end|>", "\n", false},
      {"plain",  "",                  "",                    ": ",                    "\n",         "",   false},
      // clang-format on
  };
  return kRows;
}

namespace {

constexpr std::array<std::string_view, 3> kRoles = {"system", "user", "assistant"};
constexpr std::string_view kAssistant = "assistant";

// What Python's str.strip() removes, as templates do.
bool is_trimmed(char32_t c) { return tokenizer::is_white_space(c) || (c >= 0x1c && c <= 0x1f); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = io::utf8_length(text);
    if (!is_trimmed(io::utf8_character(text, length))) break;
    text.remove_prefix(length);
  }
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while ((static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    if (!is_trimmed(io::utf8_character(text.substr(begin), text.size() - begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

// Calls visit(mark) with each "<|...|>" of a template's text.
template <class Visit>
void for_each_mark(std::string_view text, Visit&& visit) {
  for (std::size_t begin = text.find("<|"); begin != std::string_view::npos; begin = text.find("<|", begin)) {
    const std::size_t end = text.find("|>", begin) + 2;
    visit(text.substr(begin, end - begin));
    begin = end;
  }
}

}  // namespace

// Text, and the ranges of it that are trained.
struct ChatTemplate::Rendered {
  std::string text;
  std::vector<std::size_t> trained;  // first and last byte of each range
};

std::vector<std::string> ChatTemplate::names() {
  std::vector<std::string> all;
  for (const Row& row : rows()) all.emplace_back(row.name);
  return all;
}

std::vector<std::string> ChatTemplate::roles() { return {kRoles.begin(), kRoles.end()}; }

ChatTemplate::ChatTemplate(std::string_view name, const Tokenizer& tokenizer) : row_(nullptr), tokenizer_(tokenizer) {
  for (const Row& row : rows()) row_ = row.name == name ? &row : row_;
  if (row_ == nullptr) {
    throw UsageError("tokenizer", fmt::format("chat: expected one of {}, got \"{}\"", fmt::join(names(), ", "), name));
  }
  for (const std::string_view text : {row_->begin, row_->before_role, row_->before_content, row_->end}) {
    for_each_mark(text, [&](std::string_view mark) {
      if (tokenizer.added_token(mark)) return;
      throw UsageError(
          "tokenizer",
          fmt::format("chat: template {}: expected a tokenizer with the added token {}, found none", name, mark),
          "the template plain needs no added tokens");
    });
  }
  // What ends a turn is trained, and tells where an answer ends.
  const std::array<ChatMessage, 1> turn{{{std::string(kAssistant), "a"}}};
  const Rendered sample = rendered(turn, false);
  const auto [ids, end] = tokenizer.encode_located(sample.text, std::span(sample.trained).last(1));
  const bool has_token = !end.empty() && end[0].begin < end[0].end;
  if (has_token && tokenizer.bytes_of(ids[end[0].begin]).ends_with(row_->end)) return;  // and not an unk_token
  throw UsageError(
      "tokenizer",
      fmt::format("chat: template {}: expected a tokenizer with a token for {}, which ends a turn, found none", name,
                  nlohmann::json(std::string(row_->end)).dump()),
      "its vocabulary or its normalizer drops that text; other templates end a turn with an added token");
}

ChatTemplate::Rendered ChatTemplate::rendered(std::span<const ChatMessage> messages, bool add_generation_prompt) const {
  Rendered result{std::string(row_->begin), {}};
  std::string& text = result.text;
  for (const ChatMessage& message : messages) {
    if (std::ranges::find(kRoles, message.role) == kRoles.end()) {
      throw UsageError("tokenizer",
                       fmt::format("role: expected one of {}, found \"{}\"", fmt::join(kRoles, ", "), message.role));
    }
    const std::string content = io::is_utf8(message.content) ? message.content : io::repaired_utf8(message.content);
    text.append(row_->before_role).append(message.role).append(row_->before_content);
    const std::size_t begin = text.size() - (space_belongs_to_content() ? 1 : 0);
    text.append(row_->trims ? trimmed(content) : content).append(row_->end);
    const bool is_trained = message.role == kAssistant && message.is_trained;
    if (is_trained) result.trained.insert(result.trained.end(), {begin, text.size() - 1});
    text.append(row_->after_end);
  }
  if (add_generation_prompt) {
    std::string_view before = row_->before_content;
    if (space_belongs_to_content()) before.remove_suffix(1);
    text.append(row_->before_role).append(kAssistant).append(before);
  }
  return result;
}

bool ChatTemplate::space_belongs_to_content() const {
  return row_->before_content.ends_with(' ') && tokenizer_.bytes_per_token() == 0;
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, bool add_generation_prompt) const {
  return rendered(messages, add_generation_prompt).text;
}

ChatTokens ChatTemplate::encode(std::span<const ChatMessage> messages, bool add_generation_prompt) const {
  const Rendered result = rendered(messages, add_generation_prompt);
  Tokenizer::Located located = tokenizer_.encode_located(result.text, result.trained);
  const auto is_outside = [&](const TokenRange& range) { return range.end > located.ids.size(); };
  if (located.tokens.size() != result.trained.size() || std::ranges::any_of(located.tokens, is_outside)) {
    throw InternalError("tokenizer", fmt::format("chat: expected {} positions within {} tokens, found {} or others",
                                                 result.trained.size(), located.ids.size(), located.tokens.size()));
  }
  ChatTokens tokens{std::move(located.ids), {}};
  tokens.trained.resize(tokens.ids.size());
  for (std::size_t i = 0; i < located.tokens.size(); i += 2) {
    for (std::size_t t = located.tokens[i].begin; t < located.tokens[i + 1].end; ++t) tokens.trained[t] = true;
  }
  return tokens;
}

Tokenizer::Ids ChatTemplate::encode_next_turn(const std::string& content, AnswerEnd ended) const {
  const std::array<ChatMessage, 1> turn{{{"user", content}}};
  const std::string text = std::string(ended == AnswerEnd::text ? "" : row_->end)
                               .append(row_->after_end)
                               .append(rendered(turn, true).text.substr(row_->begin.size()));
  // Behind an added token a tokenizer may begin anew. So the token that ended the answer is encoded once more.
  Tokenizer::Ids ids;
  tokenizer_.encode_front(text, true, true, ids);
  if (ended == AnswerEnd::token) ids.erase(ids.begin());
  return ids;
}

std::string ChatTemplate::end_of_turn() const { return std::string(row_->end); }

std::optional<std::uint32_t> ChatTemplate::end_of_turn_token() const {
  return tokenizer_.bytes_per_token() == 1 ? std::optional(tokenizer_.encode(row_->end)[0])
                                           : tokenizer_.added_token(row_->end);
}

}  // namespace lt
