// Opens loaders, and relates the size of the data to steps.
#include "run/training_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "data/file_list.h"
#include "data/whole_part.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "record/short_text.h"
#include "run/data_tokenizers.h"

namespace lt::run {
namespace {

// Throws DataError for a file whose samples would train nothing.
void require_targets(const TokenFile& file, Size seq) {
  if (file.has_targets(1, (file.tokens() - 1) / seq * seq + 1)) return;
  throw DataError("data",
                  file.path() + ": expected tokens that count as targets, found none: its mask excludes them all",
                  "conversations train the assistant's messages alone; leave out a file that has none");
}

// Runs `open`, whose errors shall begin with `key`.
template <class Open>
auto opened(const std::string& key, const Open& open) {
  try {
    return open();
  } catch (const DataError& e) {
    throw DataError(e.component(), key + " " + e.what(), e.hint());
  } catch (const UsageError& e) {
    throw UsageError(e.component(), key + " " + e.what(), e.hint());
  }
}

}  // namespace

std::unique_ptr<TokenLoader> open_loader(const DataSpec& data, const std::string& key,
                                         const std::vector<DataSource>& sources, const BatchShape& shape,
                                         DataOptions options) {
  options.seed = data.seed, options.format = data.format;
  return opened(key, [&] {
    auto loader = std::make_unique<TokenLoader>(TokenLoader::mix(sources, shape, options));
    for (const TokenFile& file : loader->files()) require_targets(file, shape.seq);
    return loader;
  });
}

std::uint32_t end_of_documents(const DataSpec& data, const Tokenizer* tokenizer) {
  std::optional<std::uint32_t> end;
  if (tokenizer != nullptr) end = tokenizer->end_of_text();
  const bool ends_turns = end && end == tokenizer->added_token("<|im_end|>");
  if (end && !ends_turns) return *end;
  const char* found = ends_turns             ? "only <|im_end|>, which also ends the turns of a conversation"
                      : tokenizer == nullptr ? "no tokenizer.json"
                      : tokenizer->bytes_per_token() == 1 ? "bytes, which have no such token"
                                                          : "a tokenizer.json without such a token";
  throw UsageError("config", "data.documents",
                   fmt::format("cross without a tokenizer with an end-of-text token beside {}", data.key),
                   fmt::format("mask with {}", found), "docs/how-to/data.md lists the names of such tokens");
}

void require_end_of_documents(const DataSpec& data) {
  if (data.documents != Documents::mask || data.sources.empty()) return;
  std::vector<NamedTokenizer> found;
  try {
    found = tokenizers_beside(data.key, data.sources[0].files);
  } catch (const DataError&) {
  }
  if (found.empty()) return;
  const auto tokenizer = found[0].text.empty() ? nullptr : tokenizer_from_json(found[0].text, found[0].place);
  end_of_documents(data, tokenizer.get());
}

void set_steps_of_epochs(Resolved& resolved, int ranks, Size steps_done, Size samples_done) {
  const DataSpec& data = resolved.data;
  if (data.epochs == 0) return;
  if (data.sources.empty()) throw UsageError("config", "data.epochs", "data.train or data.sources with it", "none");
  const Size samples = opened(data.key, [&] { return count_samples(data.sources, resolved.step.seq, data.format); });
  const Size batch = resolved.batch_shape(0, ranks).global_samples();
  const double left = std::max(0.0, data.epochs * static_cast<double>(samples) - static_cast<double>(samples_done));
  const double steps = static_cast<double>(steps_done) + data::whole_part(left / static_cast<double>(batch));
  constexpr Size kMostSteps = std::numeric_limits<std::int32_t>::max();  // as of train.steps
  if (steps > static_cast<double>(kMostSteps)) {
    throw UsageError("config", "data.epochs", fmt::format("at most {} steps", kMostSteps),
                     fmt::format("{} of {} samples in {}", steps, batch, data.key));
  }
  resolved.set_steps(std::max<Size>(1, static_cast<Size>(steps)));
}

void require_token_files(const DataSpec& data) {
  const auto require = [&](const std::string& key, const std::vector<std::string>& files) {
    opened(key, [&] {
      for (const std::string& path : data::expand_files(files)) TokenFile(path, data.format);
    });
  };
  for (const DataSource& source : data.sources) require(data.key, source.files);
  require("data.val", data.val);
}

std::vector<std::string> data_warnings(const Resolved& resolved, const TokenLoader& data, Size samples_a_step,
                                       Size steps_done, Size samples_done) {
  std::vector<std::string> lines;
  constexpr Size kFew = 10;
  if (const Size blocks = data.samples_per_epoch(); blocks < kFew) {
    lines.push_back(
        fmt::format("{} has {} of train.seq {} tokens, fewer than {}: more data or a smaller train.seq gives more",
                    resolved.data.key, recorder::counted(blocks, "block"), resolved.step.seq, kFew));
  }
  for (Size source = 0; source < data.sources(); ++source) {
    const std::string which = resolved.data.key == "data.train" ? "" : fmt::format("[{}]", source);
    const Size ahead = data.first_repeat(source) - samples_done;
    if (ahead < 0 && steps_done < resolved.steps()) {
      lines.push_back(fmt::format("{}{}: all of it has been used before; it repeats", resolved.data.key, which));
      continue;
    }
    const Size step = steps_done + ahead / samples_a_step + 1;
    if (step > resolved.steps()) continue;
    lines.push_back(fmt::format("{}{} repeats from step {} on", resolved.data.key, which, step));
  }
  if (!resolved.data.val.empty() && resolved.evaluation.every == 0) {
    lines.push_back("data.val is never evaluated: train.eval_every is 0");
  }
  return lines;
}

}  // namespace lt::run
