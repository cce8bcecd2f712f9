// Opens the loaders and the tokenizer of a run, and checks that they match the model and each other.
#include "run/run_data.h"

#include <fmt/format.h>

#include <filesystem>

#include "config/base_model.h"
#include "io/presence.h"
#include "libtrain/error.h"
#include "run/data_tokenizers.h"
#include "run/run_folder.h"
#include "run/same_data.h"
#include "run/training_data.h"
#include "tokenizer/tokenizer_files.h"

namespace lt::run {
namespace {

constexpr const char* kValidation = "data.val";

void require_one_source(const Resolved& resolved, bool has_own_batches) {
  const bool has_files = !resolved.data.sources.empty();
  if (has_own_batches && has_files) {
    throw UsageError("config", resolved.data.key, "no files, because the program has batches of its own", "some");
  }
  if (has_own_batches && resolved.data.documents == Documents::mask) {
    throw UsageError("config", "data.documents", "cross with batches of the program's own", "mask");
  }
  if (!has_own_batches && !has_files && resolved.steps() > 0) {
    const std::string& from = resolved.weights.from;
    const bool has_tokenizer = !from.empty() && std::filesystem::exists(from + "/tokenizer.json");
    throw UsageError("config", "data.train", "token files", "none",
                     fmt::format("make them with: ltrain prepare --input FILE --tokenizer {} --out data",
                                 has_tokenizer ? from : "byte"));
  }
}

void open_tokenizer(RunData& data, const Resolved& resolved) {
  const std::string folder = folder_of_tokenizer(resolved.data.sources);
  const std::string path = (std::filesystem::path(folder) / "tokenizer.json").string();
  if (!io::is_present("data", path)) return;
  data.tokenizer_text = read_tokenizer(path);
  const bool is_needed = resolved.sample_every > 0 || resolved.data.documents == Documents::mask;
  data.tokenizer =
      is_needed ? tokenizer_from_json(data.tokenizer_text, path) : supported_tokenizer(data.tokenizer_text, path);
  const bool is_bytes = data.tokenizer != nullptr && data.tokenizer->bytes_per_token() == 1;
  if (!is_bytes) data.tokenizer_files = tokenizer::read_tokenizer_files("data", folder);
}

// Compares the tokenizers of the data, and the base, with each other. Rank 0 calls it before ids are compared with the
// vocabulary.
void require_fitting(const Resolved& resolved) {
  if (!resolved.data.sources.empty()) {
    const std::vector<NamedTokenizer> all = tokenizers_of_data(resolved);
    if (!all.empty()) require_tokenizer(all.front(), all, TokenizerMatch::same);
  }
  if (resolved.weights.from.empty() || goes_on(resolved)) return;  // model.from of a run that goes on may be gone
  if (resolved.transformer)
    config::require_same_model(resolved.config);  // else parameters are compared as they are read
  require_tokenizer_of_base(resolved);
}

void open_files(RunData& data, const Resolved& resolved, const World& world, const nn::Model& model) {
  const EngineOptions& step = resolved.step;
  const std::vector<DataSource>& sources = resolved.data.sources;
  DataOptions options{.vocab = model.facts(step.seq).vocab};
  if (resolved.data.documents == Documents::mask && !sources.empty()) {
    options.document_end = end_of_documents(resolved.data, data.tokenizer.get());
  }
  const auto loader = [&](const std::string& key, const std::vector<DataSource>& from, Size accum, bool shuffle) {
    options.shuffle = shuffle;
    BatchShape shape = resolved.batch_shape(world.rank(), world.size());
    shape.accum = accum;
    return open_loader(resolved.data, key, from, shape, options);
  };
  if (!sources.empty()) {
    data.opened = loader(resolved.data.key, sources, step.accum, resolved.data.shuffle);
    data.batches = data.opened.get();
  }
  data.loader = dynamic_cast<const TokenLoader*>(data.batches);
  if (resolved.evaluation.every == 0 || resolved.evaluation.own.batch) return;
  if (resolved.data.val.empty()) {
    throw UsageError("config", kValidation, "token files with train.eval_every", "none");
  }
  for (const std::string& files : resolved.data.val) {
    data.validation.push_back({files, loader(kValidation, {{{files}, 1}}, 1, false)});
  }
}

}  // namespace

RunData open_data(const Resolved& resolved, const World& world, const Group& control, const nn::Model& model,
                  BatchSource* given) {
  RunData data;
  data.batches = given;
  collectively(control, [&] {
    require_one_source(resolved, given != nullptr);
    require_token_files(resolved.data);
    if (!resolved.data.sources.empty()) open_tokenizer(data, resolved);
    if (world.rank() == 0) require_fitting(resolved);
    open_files(data, resolved, world, model);
    if (resolved.sample_every > 0 && data.tokenizer == nullptr) {
      throw UsageError("config", "train.sample_every",
                       fmt::format("0 without a tokenizer.json beside {}", resolved.data.key),
                       std::to_string(resolved.sample_every));
    }
  });
  if (data.loader != nullptr) data.files = identify_files(resolved.data.key, *data.loader, world.info(), control);
  for (const ValidationSet& set : data.validation) identify_files(kValidation, *set.loader, world.info(), control);
  return data;
}

}  // namespace lt::run
