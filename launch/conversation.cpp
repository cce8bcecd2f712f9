// Encodes each turn with the chat template and samples the answer until its end.
#include "launch/conversation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <iostream>
#include <optional>

#include "io/print_note.h"
#include "launch/sample_output.h"
#include "libtrain/error.h"
#include "run/stop_text.h"

namespace lt::launch {
namespace {

using AnswerEnd = ChatTemplate::AnswerEnd;

// Throws UsageError for a token outside the model's vocabulary.
Tokenizer::Ids in_vocabulary(Tokenizer::Ids tokens, const LoadedModel& loaded) {
  for (const std::uint32_t token : tokens) {
    const Size vocab = loaded.model->spec().vocab;
    if (token < vocab) continue;
    throw UsageError("usage",
                     fmt::format("text: expected tokens below the model's vocabulary {}, got {}", vocab, token));
  }
  return tokens;
}

// Returns how the model ended its turn.
AnswerEnd answer(Generator& generator, const Tokenizer& tokenizer, const EndOfTurn& end, Size most_tokens,
                 const std::vector<std::string>& stops) {
  TextStream stream(tokenizer);
  run::StopText stop(end.with_text(stops));
  std::string text;  // of the answer, with what ended it
  bool is_closed = false;
  for (Size i = 0; i < most_tokens && !stop.has_stopped(); ++i) {
    const std::uint32_t token = generator.step()[0];
    is_closed = end.closes_turn(token);
    if (end.is_end(token)) break;
    const std::string piece = stream.push(token);
    text += piece;
    write_out(stop.push(piece));
  }
  write_out(stop.finish(stream) + "\n");
  if (is_closed) return AnswerEnd::token;
  return text.find(end.text()) != text.npos ? AnswerEnd::text : AnswerEnd::none;
}

}  // namespace

EndOfTurn::EndOfTurn(const ChatTemplate& chat, const Tokenizer& tokenizer)
    : turn_(chat.end_of_turn_token()), text_(tokenizer.end_of_text()), words_(chat.end_of_turn()) {}

std::vector<std::string> EndOfTurn::with_text(std::vector<std::string> stops) const {
  if (!turn_) stops.push_back(words_);
  return stops;
}

Tokenizer::Ids tokens_of(const std::string& text, const LoadedModel& loaded) {
  Tokenizer::Ids tokens = loaded.tokenizer->encode(text);
  if (const auto end = loaded.tokenizer->end_of_text(); tokens.empty() && end && *end < loaded.model->spec().vocab)
    tokens = {*end};
  return in_vocabulary(std::move(tokens), loaded);
}

void warn_of_cut(const std::string& what, const Tokenizer::Ids& tokens, const LoadedModel& loaded) {
  const Size max_seq = loaded.model->spec().max_seq, count = static_cast<Size>(tokens.size());
  const Size kept = tokens_kept(count, max_seq);
  if (kept == count) return;
  io::print_note(
      "warning: [sample] {}: {} tokens, model.max_seq is {}: the first {} are cut, the model reads the last {}\n", what,
      count, max_seq, count - kept, kept);
}

GenerationTiming converse(LoadedModel& loaded, const ChatTemplate& chat, const SamplingOptions& sampling,
                          const std::vector<std::string>& stops) {
  Generator generator(*loaded.model, 1, sampling);
  const EndOfTurn end(chat, *loaded.tokenizer);
  const auto ask = [] {
    if (isatty(STDIN_FILENO) == 1) std::fputs("> ", stderr);
  };
  std::optional<AnswerEnd> ended;  // of the last answer
  std::string line;
  for (ask(); std::getline(std::cin, line); ask()) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const std::array<ChatMessage, 1> turn{{{"user", line}}};
    const Tokenizer::Ids tokens =
        in_vocabulary(ended ? chat.encode_next_turn(line, *ended) : chat.encode(turn, true).ids, loaded);
    warn_of_cut("turn", tokens, loaded);
    generator.append(0, tokens);
    ended = answer(generator, *loaded.tokenizer, end, sampling.tokens, stops);
  }
  return generator.timing();
}

}  // namespace lt::launch
