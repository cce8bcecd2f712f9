// `ltrain eval`: measures a checkpoint's mean loss over all whole blocks of token files, or its accuracy on
// multiple-choice questions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "launch/command.h"
#include "launch/model_options.h"
#include "launch/numbers.h"
#include "launch/progress_line.h"
#include "libtrain/error.h"
#include "libtrain/run/evaluate.h"
#include "record/short_text.h"

namespace lt::launch {
namespace {

// The fields of the evaluation's errors are options of this command.
template <class Body>
auto in_words_of_options(Body&& body) {
  const auto shared_as = [](auto ours, const Error& theirs) {
    if (theirs.shared()) ours.set_shared(theirs.rank());
    return ours;
  };
  try {
    return body();
  } catch (const DataError& e) {
    throw shared_as(DataError(e.component(), std::string("--data ") + e.what(), e.hint()), e);
  } catch (const UsageError& e) {
    if (e.component() != "data" || e.field().empty()) throw;
    throw shared_as(UsageError(e.component(), "--" + e.field(), e.expected(), e.actual(), e.hint()), e);
  }
}

void print(const EvaluationResult& result, const std::string& checkpoint) {
  fmt::print("loss {:.6f}\nperplexity {:.4f}\n", result.loss, std::exp(result.loss));
  if (result.bits_per_byte > 0) fmt::print("bits_per_byte {:.6f}\n", result.bits_per_byte);
  for (const FileLoss& file : result.files) {
    const std::string loss = file.tokens > 0 ? fmt::format("{:.6f}", file.loss) : "none";
    if (result.files.size() > 1) fmt::print("loss {} of {} tokens, {}\n", loss, file.tokens, file.name);
  }
  fmt::print("tokens {} in {}, checkpoint {}\n", result.tokens, recorder::counted(result.blocks, "block"), checkpoint);
}

void require_finite(double loss) {
  if (std::isfinite(loss)) return;
  NonFiniteError error(fmt::format("eval: loss: expected a finite number, got {}", std::abs(loss)),
                       "the weights, or what the model computes from them in --train.dtype, are not finite numbers");
  error.set_shared(0);
  throw error;
}

void print(const ChoicesResult& result, const std::string& checkpoint) {
  const auto share = [&](Size correct) { return static_cast<double>(correct) / static_cast<double>(result.questions); };
  fmt::print("accuracy {:.4f}\naccuracy_per_byte {:.4f}\nquestions {}, checkpoint {}\n", share(result.correct),
             share(result.correct_normalized), result.questions, checkpoint);
}

}  // namespace

CommandBody set_up_eval(CLI::App& app, const Models&) {
  struct Options {
    ModelOptions model;
    std::string format = "auto";
    std::vector<std::string> data;
    std::string choices;
    Size seq = 0;
  };
  const auto o = std::make_shared<Options>();
  add_model_options(app, o->model);
  app.add_option("--data", o->data, "token files or glob patterns to measure the loss on")->option_text("FILE...");
  app.add_option("--choices", o->choices,
                 "JSON lines with question, choices and answer, to measure accuracy on; may be .gz or .zst")
      ->option_text("FILE.jsonl");
  app.add_option("--seq", o->seq, "tokens per block; default: the run's train.seq, or max_seq of an imported model")
      ->check(integer_from(1))
      ->option_text("N");
  app.add_option("--format", o->format,
                 "format of token files: auto (by magic number) or raw16 (uint16 without a header)")
      ->check(CLI::IsMember({"auto", "raw16"}))
      ->option_text("auto|raw16 = auto");
  return [o](const Invocation& invocation) {
    if (o->data.empty() && o->choices.empty()) {
      throw UsageError("usage", "expected --data FILE... or --choices FILE.jsonl, got neither");
    }
    const Group& group = invocation.world.group();
    const bool is_first = invocation.world.rank() == 0;
    const auto on_first = [&](const OnProgress& show) { return is_first ? show : OnProgress(); };
    LoadedModel loaded;
    collectively(group, [&] { loaded = load_model(o->model, invocation.world); });
    if (!o->data.empty()) {
      const TokenFormat format = o->format == "raw16" ? TokenFormat::raw16 : TokenFormat::automatic;
      const EvaluationResult result = with_progress("eval", " tokens", "", [&](const OnProgress& show) {
        return in_words_of_options(
            [&] { return evaluate_files(loaded, o->data, o->seq, 8, format, group, on_first(show)); });
      });
      if (is_first) print(result, loaded.directory);
      require_finite(result.loss);
    }
    if (!o->choices.empty()) {
      const ChoicesResult result = with_progress("eval", " questions", "", [&](const OnProgress& show) {
        return evaluate_choices(loaded, o->choices, group, on_first(show));
      });
      if (is_first) print(result, loaded.directory);
    }
    return ExitCode::ok;
  };
}

}  // namespace lt::launch
