// `ltrain prepare`: converts text to token files.
#include "libtrain/data/prepare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "device/fault.h"
#include "io/print_note.h"
#include "launch/command.h"
#include "launch/numbers.h"
#include "launch/progress_line.h"
#include "libtrain/error.h"
#include "libtrain/tokenizer/chat.h"
#include "record/short_text.h"

namespace lt::launch {

CommandBody set_up_prepare(CLI::App& app, const Models&) {
  const auto options = std::make_shared<PrepareOptions>();
  app.add_option("--input", options->inputs,
                 "text files, glob patterns or - for standard input; .jsonl and .ndjson: a document per line; may be "
                 ".gz or .zst")
      ->required()
      ->option_text("FILE... (required)");
  app.add_option("--tokenizer", options->tokenizer, "byte, a tokenizer.json, or a folder with one")
      ->option_text("byte|FILE.json = byte");
  app.add_option("--out", options->out, "output folder for train.bin, val.bin and tokenizer.json")
      ->required()
      ->option_text("DIR (required)");
  app.add_option("--field", options->field,
                 "field of a JSON line that holds the text; if given, standard input is read as JSON lines")
      ->option_text("NAME = text");
  app.add_option("--text-separator", options->text_separator, "text that separates the documents in a text file")
      ->option_text("TEXT");
  app.add_option(
         "--chat", options->chat,
         "chat template; each input line is a conversation: {\"messages\": [{\"role\": ..., \"content\": ...}, ...]}")
      ->option_text(fmt::format("{}", fmt::join(ChatTemplate::names(), "|")));
  app.add_option("--pack", options->pack,
                 "pack whole documents into blocks of this many tokens; train with the same train.seq")
      ->check(integer_from(1))
      ->option_text("SEQ");
  app.add_option(
         "--val-fraction", options->val_fraction,
         "share of the tokens (with --pack: of the blocks) to write to val.bin, taken from the end; 0: no val.bin")
      ->check(number_between(0, 1))
      ->option_text("= 0.1");

  options->overwrite = false;
  app.add_flag("--force", options->overwrite,
               "overwrite or remove existing token files and masks in the output folder");

  return [options](const Invocation&) {
    io::outlive_readers();
    device::arm_fault(0);
    PrepareResult result;
    {
      ProgressLine line("prepare", "B", " of text", ProgressLine::Elsewhere::lines);
      PrepareOptions shown = *options;
      shown.on_progress = [&, is_first = true](const PrepareProgress& progress) mutable {
        if (is_first && progress.resumed) io::print_note("prepare: continues what an earlier run has done\n");
        is_first = false;
        line.show({progress.text_bytes, progress.stored_bytes, progress.stored_in_all});
      };
      result = prepare(shown);
    }
    io::print_done("{}: {}, {} from {} ({} of {})\n", options->out,
                   recorder::counted(result.train_tokens, "training token"),
                   recorder::counted(result.val_tokens, "validation token"), recorder::counted(result.files, "file"),
                   recorder::counted(result.bytes, "byte"), options->chat ? "message contents" : "text");
    if (result.masked_tokens > 0) {
      io::print_done("{} of the tokens are no targets, as the .mask files say\n", result.masked_tokens);
    }
    if (result.untrained_conversations > 0) {
      io::print_note("warning: [data] {} of {} conversations train nothing: no message of the assistant counts\n",
                     result.untrained_conversations, result.conversations);
    }
    for (const auto& [field, count] : result.unused_fields) {
      const bool is_of_messages = field.starts_with("messages[]") || field == "...";
      io::print_note("warning: [data] field \"{}\" of {} has no effect\n", field,
                     recorder::counted(count, is_of_messages ? "message" : "conversation"));
    }
    if (result.train_tokens == 0) {
      io::print_note("warning: [data] --val-fraction {} of {} leaves none for training: {}/train.bin is empty\n",
                     options->val_fraction, recorder::counted(result.val_tokens, "token"), options->out);
    }
    if (options->val_fraction > 0 && result.val_tokens == 0) {
      io::print_note("warning: [data] --val-fraction {} of {} is less than a {}: {}/val.bin is empty\n",
                     options->val_fraction, recorder::counted(result.train_tokens, "token"),
                     options->pack > 0 ? "block" : "token", options->out);
    }
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
