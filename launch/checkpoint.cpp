// `ltrain checkpoint list|inspect|verify|free|export|import DIR`: examines, frees, exports and imports checkpoints.
#include "libtrain/checkpoints/checkpoint.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "checkpoints/format/model_json.h"
#include "checkpoints/hugging_face/base_weights.h"
#include "checkpoints/memory/memory_folder.h"
#include "config/base_model.h"
#include "io/print_note.h"
#include "launch/command.h"
#include "launch/model_options.h"
#include "launch/progress_line.h"
#include "libtrain/error.h"
#include "record/short_text.h"
#include "save/run_identity.h"
#include "tokenizer/tokenizer_json.h"

namespace lt::launch {
namespace {

// `command` is shown with the progress: every byte of the checkpoint is verified.
std::string newest(const std::string& path, const char* command) {
  std::vector<std::string> notes;
  const std::string found = with_progress(
      command, "B", " verified", [&](const OnProgress& show) { return checkpoint::newest(path, &notes, show); });
  for (const std::string& note : notes) io::print_note("passed over: {}\n", note);
  return found;
}

std::string or_none(const std::string& text) { return text.empty() ? "(none)" : text; }

ExitCode list(const std::string& path) {
  const auto entries = with_progress("checkpoint list", "B", "",
                                     [&](const OnProgress& show) { return checkpoint::list(path, true, show); });
  if (entries.empty()) throw DataError("checkpoint", path + ": expected step-* folders, found none");
  for (const checkpoint::Listing& entry : entries) {
    fmt::print("{}  {}\n", entry.path, entry.valid ? "valid" : "invalid: " + entry.reason);
  }
  return ExitCode::ok;
}

ExitCode inspect(const std::string& path) {
  const std::string folder = newest(path, "checkpoint inspect");
  const checkpoint::RunState state = checkpoint::read_state(folder);
  const auto parameters = checkpoint::read_parameters(folder);
  Size total = 0;
  for (const ParameterInfo& parameter : parameters) total += parameter.shape.elements();
  fmt::print("{}\nrun {}, parent {}\n", folder, or_none(state.run), or_none(state.parent));
  if (state.eval_loss) fmt::print("evaluation loss {:.4f}\n", *state.eval_loss);
  if (!state.base_digest.empty()) {
    fmt::print("adapters of {}, digest {}\n",
               state.base.empty() ? fmt::format("the initial weights of seed {}", state.seed) : state.base,
               state.base_digest);
  }
  for (const auto& [name, value] : state.program) {
    fmt::print("state {}: {}\n", name, recorder::counted(static_cast<Size>(value.size()), "byte"));
  }
  fmt::print("step {}, {} samples, seed {}, written by {}, config {}\nmodel {}\n{} parameters in {} tensors:\n",
             state.step, state.samples, state.seed, recorder::counted(checkpoint::read_world_size(folder), "rank"),
             state.config_hash, or_none(state.model), total, parameters.size());
  for (const ParameterInfo& parameter : parameters) {
    fmt::print("  {:<40} {}\n", parameter.name, to_string(parameter.shape));
  }
  return ExitCode::ok;
}

ExitCode verify(const std::string& path) {
  const auto problems = with_progress("checkpoint verify", "B", "",
                                      [&](const OnProgress& show) { return checkpoint::verify(path, show); });
  for (const std::string& problem : problems) fmt::print("{}\n", problem);
  if (!problems.empty()) {
    throw DataError("checkpoint", fmt::format("{}: expected every byte as it was written, found {}", path,
                                              recorder::counted(static_cast<Size>(problems.size()), "problem")));
  }
  fmt::print("{}: every byte verified\n", path);
  return ExitCode::ok;
}

void warn_of_bytes(const std::string& folder, const std::string& out) {
  const std::string tokenizer = checkpoint::read_state(folder).tokenizer;
  if (tokenizer.empty() || tokenizer::is_hugging_face_tokenizer(tokenizer)) return;
  io::print_note(
      "warning: [tokenizer] {}: the format has no file for the tokenizer byte; sample and eval of an import need "
      "--tokenizer byte\n",
      out);
}

// PEFT's format has no fields for positions, so PEFT takes those of the base.
void warn_of_positions(const std::string& folder, const std::string& given, const std::string& out) {
  const checkpoint::RunState state = checkpoint::read_state(folder);
  std::optional<nn::TransformerSpec> base;
  try {
    const std::string found = checkpoint::find_base(state, folder, given);
    if (!found.empty()) base = config::model_at(found);
  } catch (const DataError&) {  // the export does not need the base
  }
  if (!base) return;
  const nn::TransformerSpec spec = checkpoint::model_from_json(state.model).spec;
  if (spec.rope_base == base->rope_base && spec.rope_scaling == base->rope_scaling) return;
  io::print_note(
      "warning: [checkpoint] {}: PEFT takes rope_base {} and rope_scaling \"{}\" from the base, the run has {} and "
      "\"{}\"; an export without --adapter keeps the run's\n",
      out, base->rope_base, base->rope_scaling, spec.rope_base, spec.rope_scaling);
}

// Frees the run's in-memory copies on this host.
ExitCode free_memory(const std::string& run_dir) {
  const saver::RunIdentity identity = saver::read_identity(run_dir);
  const std::string& id = identity.id;
  if (identity.is_new) {
    throw DataError(
        "checkpoint",
        fmt::format("{}: expected the folder in which the run was, found a copy of run {}", run_dir, identity.parent),
        "the copies in memory are the other run's");
  }
  if (id.empty()) throw DataError("checkpoint", run_dir + ": expected a run's folder with run.json, found none");
  if (checkpoint::is_memory_in_use(id)) {
    throw UsageError("checkpoint", run_dir + ": expected a run that has ended, found it at work");
  }
  const Size bytes = checkpoint::remove_memory_copies(id);
  io::print_done("{}: {:.3f} GiB of memory given back\n", run_dir, static_cast<double>(bytes) / (1 << 30));
  return ExitCode::ok;
}

}  // namespace

CommandBody set_up_checkpoint(CLI::App& app, const Models& models) {
  struct Options {
    std::string path, format = "safetensors", out, weights = kMaster, dtype = "f32", base;
    bool adapter = false;
  };
  const auto o = std::make_shared<Options>();
  using Action = std::function<ExitCode(const Options&)>;
  const auto actions = std::make_shared<std::map<CLI::App*, Action>>();
  const auto add = [&](const char* name, const char* help, Action action,
                       const char* folder = "a checkpoint, a folder of checkpoints or a run folder") {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->add_option("DIR", o->path, folder)->required()->option_text("(required)");
    actions->emplace(sub, std::move(action));
    return sub;
  };
  add("list", "list checkpoints and whether each is valid", [](const Options& options) { return list(options.path); });
  add("inspect", "print run, step, model and parameters of the newest valid checkpoint",
      [](const Options& options) { return inspect(options.path); });
  add("verify", "check every byte of each checkpoint; exit code 3 if any is damaged, else 0",
      [](const Options& options) { return verify(options.path); });
  add(
      "free", "free this host's in-memory copies of a run (checkpoint.memory_every)",
      [](const Options& options) { return free_memory(options.path); }, "run folder");
  if (models->transformers) {
    CLI::App* to =
        add("export", "write the newest valid checkpoint in Hugging Face format", [](const Options& options) {
          io::outlive_readers();
          const std::string folder = newest(options.path, "checkpoint export");
          const DType dtype = options.dtype == "bf16" ? DType::bf16 : DType::f32;
          with_progress("checkpoint export", "B", " written", [&](const OnProgress& show) {
            const checkpoint::HfExportOptions chosen{
                .weights = options.weights, .dtype = dtype, .base = options.base, .on_progress = show};
            options.adapter ? checkpoint::export_adapters(folder, options.out, chosen)
                            : checkpoint::export_hf(folder, options.out, chosen);
          });
          options.adapter ? warn_of_positions(folder, options.base, options.out) : warn_of_bytes(folder, options.out);
          io::print_done("{}: exported {}\n", options.out, folder);
          return ExitCode::ok;
        });
    to->add_option("--format", o->format, "format of the weights")
        ->check(CLI::IsMember({"safetensors"}))
        ->option_text("= safetensors");
    to->add_option("--out", o->out, "new folder for the exported model")->required()->option_text("DIR (required)");
    to->add_option("--dtype", o->dtype, "dtype of the exported tensors")
        ->check(CLI::IsMember({"f32", "bf16"}))
        ->option_text("f32|bf16 = f32");
    to->add_flag("--adapter", o->adapter, "export only the LoRA adapters of a run with model.lora, as a PEFT folder");
    add_weights_option(*to, o->weights);
    add_base_option(*to, o->base);
    CLI::App* from = add(
        "import", "convert a Hugging Face folder to a checkpoint, for model.from, sample and eval",
        [](const Options& options) {
          io::outlive_readers();
          constexpr Size kWeightsAtOnce = Size{256} << 20;
          std::vector<std::string> notes;
          const std::string made = with_progress("checkpoint import", "B", "", [&](const OnProgress& show) {
            return checkpoint::import_hf(options.path, options.out, kWeightsAtOnce, &notes, show);
          });
          for (const std::string& note : notes) {
            io::print_note(
                "warning: [tokenizer] {}: its files are kept for export; sample and eval need --tokenizer FILE.json\n",
                note);
          }
          io::print_done("{}: imported {}\n", made, options.path);
          return ExitCode::ok;
        },
        "Hugging Face folder with config.json and safetensors");
    from->add_option("--out", o->out, "new folder for the checkpoint")->required()->option_text("DIR (required)");
  }
  app.require_subcommand(1);
  return [&app, o, actions](const Invocation&) { return actions->at(app.get_subcommands().front())(*o); };
}

}  // namespace lt::launch
