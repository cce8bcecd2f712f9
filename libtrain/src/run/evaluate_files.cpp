// The loss of a loaded model on token files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/value_exchange.h"
#include "data/file_list.h"
#include "generate/loaded_model.h"
#include "libtrain/error.h"
#include "libtrain/run/evaluate.h"
#include "run/data_tokenizers.h"
#include "run/evaluation.h"

namespace lt {
namespace {

// The bytes of text that the counted targets stand for.
Size bytes_of_targets(const Batch& batch, const Tokenizer& tokenizer) {
  Size bytes = 0;
  const auto end_of_text = tokenizer.end_of_text();
  const std::int32_t* const targets = batch.targets.data<std::int32_t>();
  const std::int32_t* const before = batch.inputs.data<std::int32_t>();
  for (Size i = 0; i < batch.targets.elements(); ++i) {
    if (targets[i] == kIgnoredTarget) continue;
    const bool begins_document = end_of_text && static_cast<std::uint32_t>(before[i]) == *end_of_text;
    bytes += tokenizer.text_bytes(static_cast<std::uint32_t>(targets[i]), begins_document);
  }
  return bytes;
}

}  // namespace

EvaluationResult evaluate_files(LoadedModel& loaded, const std::vector<std::string>& files, Size seq, Size micro_batch,
                                TokenFormat format, const Group& group, const OnProgress& on_progress) {
  if (seq == 0) seq = loaded.seq;
  std::vector<run::ValidationSet> sets;
  collectively(group, [&] {
    if (files.empty()) throw UsageError("data", "expected at least one token file, got none");
    DataOptions options{.shuffle = false, .format = format, .vocab = loaded.model->spec().vocab};
    if (loaded.separates_documents) {
      if (loaded.tokenizer != nullptr) options.document_end = loaded.tokenizer->end_of_text();
      if (!options.document_end) {
        throw UsageError(
            "data", "documents: the run kept them apart, which needs a tokenizer with an end-of-text token, found none",
            "--tokenizer FILE.json");
      }
    }
    if (const Size most = loaded.model->spec().max_seq; seq > most) {
      throw UsageError("data", "seq", fmt::format("at most the model's max_seq {}", most), std::to_string(seq));
    }
    if (group.rank() == 0) {
      for (const std::string& path : data::expand_files(files))
        TokenFile(path, format);  // a folder has no tokenizer either
      const std::string text = loaded.tokenizer != nullptr ? loaded.tokenizer->to_json() : loaded.tokenizer_text;
      run::require_tokenizer({"the model", loaded.tokenizer_name, text}, run::tokenizers_beside("data", files),
                             run::TokenizerMatch::overlapping);
    }
    for (const std::string& entry : files) {
      const BatchShape shape{micro_batch, 1, seq, group.rank(), group.size()};
      sets.push_back({entry, std::make_unique<TokenLoader>(std::vector<std::string>{entry}, shape, options)});
    }
  });
  Size bytes = 0, samples = 0;
  for (const run::ValidationSet& set : sets) samples += set.loader->samples_per_epoch();
  const auto report = [&](Size done) {
    if (on_progress) on_progress(done * seq, samples * seq);
  };
  report(0);
  const run::Evaluation found = run::evaluate(
      sets, std::numeric_limits<Size>::max(), group.rank(), group.size(),
      [&](const Batch& batch) {
        if (loaded.tokenizer != nullptr) bytes += bytes_of_targets(batch, *loaded.tokenizer);
        return generator::gather_losses(generator::loss_of(*loaded.model, batch), group);
      },
      report);
  collectively(group, [&] {
    if (found.loss.counted() > 0) return;
    throw DataError("data", files[0] + (files.size() > 1 ? " and the files after it" : "") +
                                ": expected targets that count, found none: masks exclude them all");
  });
  EvaluationResult result;
  result.loss = found.loss.value();
  result.tokens = static_cast<Size>(found.loss.counted()), result.blocks = found.samples;
  bytes = comm::sum_over_ranks(group, bytes);
  if (bytes > 0) {
    result.bits_per_byte = result.loss * found.loss.counted() / std::log(2.0) / static_cast<double>(bytes);
  }
  for (const run::SetLoss& set : found.sets) {
    result.files.push_back({set.name, set.loss.value(), static_cast<Size>(set.loss.counted())});
  }
  return result;
}

}  // namespace lt
