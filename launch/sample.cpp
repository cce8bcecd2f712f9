// `ltrain sample`: continues prompts. Writes only prompts and continuations to standard output.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "model_options.h"
#include "numbers.h"
#include "sample_output.h"

namespace lt::launch {
namespace {

struct SampleOptions {
  ModelOptions model;
  std::vector<std::string> prompts, stops;
  SamplingOptions sampling;
};

double rate(Size tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

std::vector<std::uint32_t> tokens_of(const std::string& text, const LoadedModel& loaded) {
  const std::vector<std::uint32_t> tokens = loaded.tokenizer->encode(text);
  for (const std::uint32_t token : tokens) {
    const Size vocab = loaded.model->spec().vocab;
    if (token < vocab) continue;
    throw UsageError("usage",
                     fmt::format("--prompt: expected tokens below the model's vocabulary {}, got {}", vocab, token));
  }
  return tokens;
}

void report_rates(const GenerationTiming& timing, Device device) {
  fmt::print(stderr, "prefill {} tokens, {:.0f} tokens/s; decode {} tokens, {:.0f} tokens/s\n", timing.prefill_tokens,
             rate(timing.prefill_tokens, timing.prefill_s), timing.decode_tokens,
             rate(timing.decode_tokens, timing.decode_s));
  fmt::print(stderr, "memory peak {} bytes on {}\n", memory_peak(device).total, to_string(device));
}

void continue_prompts(const SampleOptions& options, LoadedModel& loaded) {
  std::vector<std::vector<std::uint32_t>> prompts;
  std::vector<std::string> texts;
  for (const std::string& prompt : options.prompts) {
    prompts.push_back(tokens_of(prompt, loaded));
    texts.insert(texts.end(), static_cast<std::size_t>(options.sampling.continuations), prompt);
  }
  SampleOutput output(*loaded.tokenizer, texts, options.stops);
  const GenerationTiming timing = generate(*loaded.model, prompts, options.sampling,
                                           [&](Size row, std::uint32_t token) { return output.push(row, token); });
  output.finish();
  report_rates(timing, loaded.model->all_parameters().front().parameter->tensor().device());
}

void add_sampling_options(CLI::App& app, SamplingOptions& sampling) {
  app.add_option("--tokens", sampling.tokens, "tokens to generate, at most")
      ->check(integer_from(0))
      ->option_text("N = 200");
  app.add_option("--temperature", sampling.temperature, "0 is greedy")
      ->check(number_between(0, 1e6))
      ->option_text("= 1");
  app.add_option("--top-k", sampling.top_k, "choose among the k likeliest tokens; 0: all")
      ->check(integer_from(0))
      ->option_text("= 0");
  app.add_option("--top-p", sampling.top_p, "choose from the smallest set with this probability")
      ->check(number_above(0, 1))
      ->option_text("= 1");
  app.add_option("--min-p", sampling.min_p, "choose among tokens at least this likely, relative to the likeliest")
      ->check(number_between(0, 1))
      ->option_text("= 0");
  app.add_option("--repetition-penalty", sampling.repetition_penalty,
                 "divides the logits of tokens that occurred, multiplies negative ones; 1: none")
      ->check(number_above(0, 1e6))
      ->option_text("= 1");
  app.add_option("--n", sampling.continuations, "continuations of each prompt")
      ->check(integer_from(1))
      ->option_text("N = 1");
  app.add_option("--seed", sampling.seed, "of the choice")->option_text("= 1337");
}

}  // namespace

Run set_up_sample(CLI::App& app) {
  const auto o = std::make_shared<SampleOptions>();
  add_model_options(app, o->model);
  app.add_option("--prompt", o->prompts, "text to continue; may be repeated")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->option_text("TEXT (required)");
  app.add_option("--stop", o->stops, "text that ends a continuation and is not part of it; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check({[](std::string& text) { return text.empty() ? "expected a text, got \"\"" : std::string(); }, ""})
      ->option_text("TEXT");
  add_sampling_options(app, o->sampling);
  return [o](const Invocation& invocation) {
    if (invocation.world.rank() != 0) return ExitCode::ok;
    LoadedModel loaded = load_model(o->model, invocation.world);
    if (loaded.tokenizer == nullptr) {
      throw DataError("checkpoint", loaded.directory + "/manifest.json: tokenizer: expected one, found none",
                      "--tokenizer byte, or the tokenizer.json that `ltrain prepare` wrote beside the data");
    }
    continue_prompts(*o, loaded);
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
