// Reads turns from standard input and answers them.
#include "conversation.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <iostream>

#include "libtrain/error.h"
#include "sample_output.h"
#include "train/stop_text.h"

namespace lt::launch {
namespace {

// The text that follows an answer: its end, unless the model wrote it, and the next turn of the user.
std::string next_turn(const ChatTemplate& chat, const std::string& line, bool is_answer_closed) {
  const std::array<ChatMessage, 3> messages{{{"user", ""}, {"assistant", ""}, {"user", line}}};
  const std::string before = chat.render(std::span(messages).first(2)), end = chat.end_of_turn();
  const std::string all = chat.render(messages, true);
  return (is_answer_closed ? "" : end) + before.substr(before.rfind(end) + end.size()) + all.substr(before.size());
}

// Returns whether the model closed its turn.
bool answer(Generator& generator, const Tokenizer& tokenizer, const EndOfTurn& end, Size most_tokens,
            const std::vector<std::string>& stops) {
  TextStream stream(tokenizer);
  StopText stop(end.with_text(stops));
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
  return is_closed || text.find(end.text()) != text.npos;
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
  for (const std::uint32_t token : tokens) {
    const Size vocab = loaded.model->spec().vocab;
    if (token < vocab) continue;
    throw UsageError("usage",
                     fmt::format("text: expected tokens below the model's vocabulary {}, got {}", vocab, token));
  }
  return tokens;
}

void warn_of_cut(const std::string& what, const Tokenizer::Ids& tokens, const LoadedModel& loaded) {
  const Size max_seq = loaded.model->spec().max_seq, count = static_cast<Size>(tokens.size());
  const Size kept = tokens_kept(count, max_seq);
  if (kept == count) return;
  fmt::print(
      stderr,
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
  bool is_first = true, is_closed = true;
  std::string line;
  for (ask(); std::getline(std::cin, line); ask()) {
    if (line.empty()) continue;
    const std::array<ChatMessage, 1> turn{{{"user", line}}};
    const std::string text = is_first ? chat.render(turn, true) : next_turn(chat, line, is_closed);
    const Tokenizer::Ids tokens = tokens_of(text, loaded);
    warn_of_cut("turn", tokens, loaded);
    generator.append(0, tokens);
    is_closed = answer(generator, *loaded.tokenizer, end, sampling.tokens, stops);
    is_first = false;
  }
  return generator.timing();
}

}  // namespace lt::launch
