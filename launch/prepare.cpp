// `ltrain prepare`: converts text to token files. One rank works; the others wait.
#include "libtrain/data/prepare.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command.h"
#include "numbers.h"
#include "record/short_text.h"

namespace lt::launch {

Run set_up_prepare(CLI::App& app) {
  const auto options = std::make_shared<PrepareOptions>();
  app.add_option("--input", options->inputs, "text files; each line of a .jsonl file is a document")
      ->required()
      ->option_text("FILE... (required)");
  app.add_option("--tokenizer", options->tokenizer, "byte, or a tokenizer.json")->option_text("byte|FILE.json");
  app.add_option("--out", options->out, "folder for train.bin, val.bin and tokenizer.json")
      ->required()
      ->option_text("DIR (required)");
  app.add_option("--field", options->field, "of a JSON line, which holds the text")->option_text("= text");
  app.add_option("--val-fraction", options->val_fraction, "share of the tokens, the last ones, for validation; 0: none")
      ->check(number_between(0, 1))
      ->option_text("= 0.1");

  return [options](const Invocation& invocation) {
    PrepareResult result;
    collectively(invocation.world.group(), [&] {
      if (invocation.world.rank() == 0) result = prepare(*options);
    });
    if (invocation.world.rank() == 0) {
      fmt::print("{}: {} training tokens, {} validation tokens from {} {} ({} bytes of text)\n", options->out,
                 result.train_tokens, result.val_tokens, result.files, result.files == 1 ? "file" : "files",
                 result.bytes);
      if (options->val_fraction > 0 && result.val_tokens == 0) {
        fmt::print(stderr, "warning: [data] --val-fraction {} of {} is less than a token: {}/val.bin is empty\n",
                   options->val_fraction, counted(result.train_tokens, "token"), options->out);
      }
    }
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
