// `ltrain sample`: continues prompts. Writes only prompts and continuations to standard output.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>

#include "io/print_note.h"
#include "launch/command.h"
#include "launch/conversation.h"
#include "launch/model_options.h"
#include "launch/numbers.h"
#include "launch/sample_output.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"

namespace lt::launch {
namespace {

struct SampleOptions {
  ModelOptions model;
  std::vector<std::string> prompts, stops;
  std::string chat;  // a template's name; empty: texts
  SamplingOptions sampling;
};

double rate(Size tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

void report_rates(const GenerationTiming& timing, const LoadedModel& loaded) {
  const Device device = loaded.model->all_parameters().front().parameter->tensor().device();
  io::print_note("prefill {} tokens, {:.0f} tokens/s; decode {} tokens, {:.0f} tokens/s\n", timing.prefill_tokens,
                 rate(timing.prefill_tokens, timing.prefill_s), timing.decode_tokens,
                 rate(timing.decode_tokens, timing.decode_s));
  io::print_note("memory peak {} bytes on {}\n", memory_peak(device).total, to_string(device));
}

// Each prompt is a text, or with a chat template the first turn of a user, and the answer its continuation.
GenerationTiming continue_prompts(const SampleOptions& options, LoadedModel& loaded, const ChatTemplate* chat) {
  std::vector<Tokenizer::Ids> prompts;
  std::vector<std::string> texts;
  for (const std::string& prompt : options.prompts) {
    const std::array<ChatMessage, 1> turn{{{"user", prompt}}};
    prompts.push_back(tokens_of(chat != nullptr ? chat->render(turn, true) : prompt, loaded));
    warn_of_cut(options.prompts.size() == 1 ? "prompt" : fmt::format("prompt {}", prompts.size()), prompts.back(),
                loaded);
    texts.insert(texts.end(), static_cast<std::size_t>(options.sampling.continuations),
                 chat != nullptr ? prompt + "\n" : prompt);
  }
  std::optional<EndOfTurn> turn;
  if (chat != nullptr) turn.emplace(*chat, *loaded.tokenizer);
  // A model that was trained on documents one by one has not learnt what comes after one.
  std::optional<std::uint32_t> end;
  if (loaded.separates_documents) end = loaded.tokenizer->end_of_text();
  SampleOutput output(*loaded.tokenizer, texts, turn ? turn->with_text(options.stops) : options.stops);
  const GenerationTiming timing =
      generate(*loaded.model, prompts, options.sampling, [&](Size row, std::uint32_t token) {
        if (!(turn && turn->is_end(token)) && token != end) return output.push(row, token);
        output.end(row);
        return false;
      });
  output.finish();
  return timing;
}

bool reads_input(const std::vector<std::string>& prompts) {
  return std::find(prompts.begin(), prompts.end(), "-") != prompts.end();
}

// Standard input is a text, or with a chat template the turns of a conversation.
void check_options(const SampleOptions& options) {
  const bool is_chat = !options.chat.empty();
  if (options.prompts.empty() && !is_chat) {
    throw UsageError("usage", "--prompt: expected a value, got none", "ltrain sample --help");
  }
  if (reads_input(options.prompts) && options.prompts.size() > 1) {
    throw UsageError("usage", "--prompt -: expected it alone, got it with other prompts");
  }
  if (is_chat && (options.prompts.empty() || reads_input(options.prompts)) && options.sampling.continuations > 1) {
    throw UsageError("usage", fmt::format("--n: expected 1 in a conversation, got {}", options.sampling.continuations));
  }
}

GenerationTiming run_sample(SampleOptions options, LoadedModel& loaded) {
  std::optional<ChatTemplate> chat;
  if (!options.chat.empty()) chat.emplace(options.chat, *loaded.tokenizer);
  if (chat && (options.prompts.empty() || reads_input(options.prompts))) {
    return converse(loaded, *chat, options.sampling, options.stops);
  }
  if (reads_input(options.prompts)) {
    options.prompts = {{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()}};
  }
  return continue_prompts(options, loaded, chat ? &*chat : nullptr);
}

void add_sampling_options(CLI::App& app, SamplingOptions& sampling) {
  app.add_option("--tokens", sampling.tokens, "maximum number of tokens per continuation")
      ->check(integer_from(0))
      ->option_text("N = 200");
  app.add_option("--temperature", sampling.temperature, "sampling temperature; 0 is greedy")
      ->check(number_between(0, 1e6))
      ->option_text("= 1");
  app.add_option("--top-k", sampling.top_k, "sample from the k most likely tokens; 0: all")
      ->check(integer_from(0))
      ->option_text("= 0");
  app.add_option("--top-p", sampling.top_p,
                 "sample from the smallest set of most likely tokens with this total probability; 1: all")
      ->check(number_above(0, 1))
      ->option_text("= 1");
  app.add_option("--min-p", sampling.min_p,
                 "exclude tokens whose probability is below this fraction of the highest; 0: none")
      ->check(number_between(0, 1))
      ->option_text("= 0");
  app.add_option(
         "--repetition-penalty", sampling.repetition_penalty,
         "penalty for tokens already in the text: divides positive logits, multiplies negative ones; 1 disables it")
      ->check(number_above(0, 1e6))
      ->option_text("= 1");
  app.add_option("--n", sampling.continuations, "continuations per prompt")
      ->check(integer_from(1))
      ->option_text("N = 1");
  app.add_option("--seed", sampling.seed, "seed of the sampling")
      ->check(integer_from(0, std::numeric_limits<long>::max()))
      ->option_text("= 1337");
}

}  // namespace

CommandBody set_up_sample(CLI::App& app, const Models&) {
  const auto o = std::make_shared<SampleOptions>();
  add_model_options(app, o->model);
  app.add_option("--prompt", o->prompts, "text to continue; may be repeated; - reads standard input")
      ->expected(1)
      ->allow_extra_args(false)  // otherwise CLI11 takes "[a, b]" for a list
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->option_text("TEXT");
  app.add_option(
         "--chat", o->chat,
         "chat template; each prompt is a user turn; without --prompt, each line of standard input is a user turn")
      ->check(CLI::IsMember(ChatTemplate::names()))
      ->option_text(fmt::format("{}", fmt::join(ChatTemplate::names(), "|")));
  app.add_option("--stop", o->stops, "text that ends a continuation and is not printed; may be repeated")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check({[](std::string& text) { return text.empty() ? "expected a text, got \"\"" : std::string(); }, ""})
      ->option_text("TEXT");
  add_sampling_options(app, o->sampling);
  return [o](const Invocation& invocation) {
    if (invocation.world.rank() != 0) return ExitCode::ok;
    check_options(*o);
    LoadedModel loaded = load_model(o->model, invocation.world);
    if (loaded.tokenizer == nullptr) {
      throw DataError("checkpoint",
                      loaded.tokenizer_problem.empty()
                          ? loaded.directory + "/manifest.json: tokenizer: expected one, found none"
                          : loaded.tokenizer_problem,
                      loaded.tokenizer_hint);
    }
    report_rates(run_sample(*o, loaded), loaded);
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
