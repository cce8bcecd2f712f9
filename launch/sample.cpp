// `ltrain sample`: continues a prompt. Writes only the prompt and its continuation to standard output.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command.h"
#include "libtrain/error.h"
#include "model_options.h"
#include "numbers.h"

namespace lt::launch {
namespace {

double rate(Size tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

void write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

Run set_up_sample(CLI::App& app) {
  struct Options {
    ModelOptions model;
    std::string prompt;
    SamplingOptions sampling;
  };
  const auto o = std::make_shared<Options>();
  add_model_options(app, o->model);
  app.add_option("--prompt", o->prompt, "text to continue")->required()->option_text("TEXT (required)");
  app.add_option("--tokens", o->sampling.tokens, "tokens to generate")->check(integer_from(0))->option_text("N = 200");
  app.add_option("--temperature", o->sampling.temperature, "0 is greedy")
      ->check(number_between(0, 1e6))
      ->option_text("= 1");
  app.add_option("--top-k", o->sampling.top_k, "choose among the k likeliest tokens; 0: all")
      ->check(integer_from(0))
      ->option_text("= 0");
  app.add_option("--top-p", o->sampling.top_p, "choose from the smallest set with this probability")
      ->check(number_above(0, 1))
      ->option_text("= 1");
  app.add_option("--seed", o->sampling.seed, "of the choice")->option_text("= 1337");
  return [o](const Invocation& invocation) {
    if (invocation.world.rank() != 0) return ExitCode::ok;
    const LoadedModel loaded = load_model(o->model, invocation.world);
    if (loaded.tokenizer == nullptr) {
      throw DataError("checkpoint", loaded.directory + "/manifest.json: tokenizer: expected one, found none",
                      "--tokenizer byte, or the tokenizer.json that `ltrain prepare` wrote beside the data");
    }
    const std::vector<std::uint32_t> prompt = loaded.tokenizer->encode(o->prompt);
    for (const std::uint32_t token : prompt) {
      const Size vocab = loaded.model->spec().vocab;
      if (token < vocab) continue;
      throw UsageError("usage",
                       fmt::format("--prompt: expected tokens below the model's vocabulary {}, got {}", vocab, token));
    }
    write(o->prompt);
    TextStream text(*loaded.tokenizer);
    const GenerationTiming timing =
        generate(*loaded.model, prompt, o->sampling, [&](std::uint32_t token) { write(text.push(token)); });
    write(text.finish() + "\n");
    fmt::print(stderr, "prefill {} tokens, {:.0f} tokens/s; decode {} tokens, {:.0f} tokens/s\n", timing.prefill_tokens,
               rate(timing.prefill_tokens, timing.prefill_s), timing.decode_tokens,
               rate(timing.decode_tokens, timing.decode_s));
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
