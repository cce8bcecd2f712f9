// `ltrain eval`: the mean loss of a checkpoint over all whole blocks of token files.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "command.h"
#include "libtrain/generate.h"
#include "numbers.h"

namespace lt::launch {

Run set_up_eval(CLI::App& app) {
  struct Options {
    std::string checkpoint, format = "auto";
    std::vector<std::string> data;
    Size seq = 0;
  };
  const auto o = std::make_shared<Options>();
  app.add_option("--checkpoint", o->checkpoint, "a step's folder, a checkpoints folder or a run's folder")
      ->required()
      ->option_text("DIR (required)");
  app.add_option("--data", o->data, "token files")->required()->option_text("FILE... (required)");
  app.add_option("--seq", o->seq, "tokens of a block; as trained where it is not given")
      ->check(integer_from(1))
      ->option_text("N");
  app.add_option("--format", o->format, "auto (by magic number) or raw16")
      ->check(CLI::IsMember({"auto", "raw16"}))
      ->option_text("= auto");
  return [o](const Invocation& invocation) {
    if (invocation.world.rank() != 0) return ExitCode::ok;
    LoadedModel loaded = load_model(o->checkpoint);
    const TokenFormat format = o->format == "raw16" ? TokenFormat::raw16 : TokenFormat::automatic;
    const EvaluationResult result = evaluate_files(loaded, o->data, o->seq, 8, format);
    fmt::print("loss {:.6f}\nperplexity {:.4f}\n", result.loss, std::exp(result.loss));
    if (const double bytes = loaded.tokenizer != nullptr ? loaded.tokenizer->bytes_per_token() : 0; bytes > 0) {
      fmt::print("bits_per_byte {:.6f}\n", result.loss / std::log(2.0) / bytes);
    }
    fmt::print("tokens {} in {} blocks, checkpoint {}\n", result.tokens, result.blocks, loaded.directory);
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
