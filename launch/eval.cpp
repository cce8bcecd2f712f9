// `ltrain eval`: the mean loss of a checkpoint over all whole blocks of token files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "command.h"
#include "libtrain/error.h"
#include "model_options.h"
#include "numbers.h"

namespace lt::launch {
namespace {

// Rewords errors that name a training run's configuration keys: the keys are options of this command.
template <class Body>
auto in_words_of_options(Body&& body) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"train.seq", "--seq"},
      {"data.format=raw16", "--format raw16"},
      {"model.vocab must be at least the vocabulary of the tokenizer that prepared the file",
       "the file must be prepared with the tokenizer of the model"}};
  const auto translated = [&](std::string text) {
    for (const auto& [theirs, ours] : kWords) {
      if (const std::size_t at = text.find(theirs); at != text.npos) text.replace(at, theirs.size(), ours);
    }
    return text;
  };
  try {
    return body();
  } catch (const DataError& e) {
    throw DataError(e.component(), std::string("--data ") + e.what(), translated(e.hint()));
  } catch (const UsageError& e) {
    throw UsageError(e.component(), translated(e.what()), translated(e.hint()));
  }
}

}  // namespace

Run set_up_eval(CLI::App& app) {
  struct Options {
    ModelOptions model;
    std::string format = "auto";
    std::vector<std::string> data;
    Size seq = 0;
  };
  const auto o = std::make_shared<Options>();
  add_model_options(app, o->model);
  app.add_option("--data", o->data, "token files")->required()->option_text("FILE... (required)");
  app.add_option("--seq", o->seq, "tokens per block; default: as in training")
      ->check(integer_from(1))
      ->option_text("N");
  app.add_option("--format", o->format, "auto (by magic number) or raw16")
      ->check(CLI::IsMember({"auto", "raw16"}))
      ->option_text("= auto");
  return [o](const Invocation& invocation) {
    if (invocation.world.rank() != 0) return ExitCode::ok;
    LoadedModel loaded = load_model(o->model, invocation.world);
    const TokenFormat format = o->format == "raw16" ? TokenFormat::raw16 : TokenFormat::automatic;
    const EvaluationResult result =
        in_words_of_options([&] { return evaluate_files(loaded, o->data, o->seq, 8, format); });
    fmt::print("loss {:.6f}\nperplexity {:.4f}\n", result.loss, std::exp(result.loss));
    if (const double bytes = loaded.tokenizer != nullptr ? loaded.tokenizer->bytes_per_token() : 0; bytes > 0) {
      fmt::print("bits_per_byte {:.6f}\n", result.loss / std::log(2.0) / bytes);
    }
    fmt::print("tokens {} in {} blocks, checkpoint {}\n", result.tokens, result.blocks, loaded.directory);
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
