// Opens the files of all sources and finds samples in them.
#include "data/samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "data/file_list.h"
#include "io/descriptor.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"

namespace lt::data {
namespace {

std::vector<double> weights_of(const std::vector<DataSource>& sources) {
  std::vector<double> weights;
  for (const DataSource& source : sources) weights.push_back(source.weight);
  return weights;
}

// The key of the order of a source's epoch. The first source has the key of data.train.
std::uint64_t order_key(std::uint64_t seed, Size source, Size epoch) {
  return derive_key(
      seed, source == 0 ? fmt::format("data.epoch.{}", epoch) : fmt::format("data.source.{}.epoch.{}", source, epoch));
}

}  // namespace

Samples::Samples(const std::vector<DataSource>& sources, Size seq, const DataOptions& options)
    : seq_(seq), options_(options), mixture_(weights_of(sources)) {
  if (seq < 1) throw UsageError("data", fmt::format("seq: expected at least 1, got {}", seq));
  for (const DataSource& given : sources) {
    if (given.files.empty()) {
      throw UsageError("data", "expected at least one token file, got none", "`ltrain prepare` makes them");
    }
    Source& source = sources_.emplace_back(Source{static_cast<Size>(files_.size()), {0}});
    const std::vector<std::string> paths = expand_files(given.files);
    io::allow_descriptors(2 * paths.size());  // each may have a mask
    for (const std::string& path : paths) {
      const TokenFile& file = files_.emplace_back(path, options.format);
      if (file.tokens() < seq + 1) {
        throw DataError("data",
                        fmt::format("{}: expected at least {} tokens (one sequence of {} and the token after it), "
                                    "found {}",
                                    path, seq + 1, seq, file.tokens()),
                        "a shorter seq, or more data");
      }
      source.first_block.push_back(source.first_block.back() + (file.tokens() - 1) / seq);
    }
  }
}

Size Samples::per_epoch() const {
  Size sum = 0;
  for (Size source = 0; source < sources(); ++source) sum += per_epoch(source);
  return sum;
}

Size Samples::source_of(Size file) const {
  Size source = sources() - 1;
  while (sources_[static_cast<std::size_t>(source)].first_file > file) --source;
  return source;
}

bool Samples::has_ignored_targets() const {
  const auto has_mask = [](const TokenFile& file) { return file.has_mask(); };
  return separates_documents() || std::any_of(files_.begin(), files_.end(), has_mask);
}

Samples::SampleLocation Samples::locate(Size index) const {
  if (index < 0) throw InternalError("data", fmt::format("expected a sample index of at least 0, got {}", index));
  const Mixture::SourceSample from = mixture_.at(index);
  const Source& source = sources_[static_cast<std::size_t>(from.source)];
  const Size blocks = source.first_block.back(), epoch = from.count / blocks;
  Size block = from.count % blocks;
  if (options_.shuffle) block = permuted(order_key(options_.seed, from.source, epoch), block, blocks);
  const auto after = std::upper_bound(source.first_block.begin(), source.first_block.end(), block);
  const auto file = after - source.first_block.begin() - 1;
  return {&files_[static_cast<std::size_t>(source.first_file + file)], (block - *(after - 1)) * seq_};
}

void Samples::read(Size index, std::int32_t* tokens) const { read_at(locate(index), index, tokens); }

// The files were scanned when they were opened, but may have been overwritten since.
void Samples::read_at(const SampleLocation& location, Size index, std::int32_t* tokens) const {
  location.file->read(location.begin, seq_ + 1, tokens);
  const Size vocab = token_limit();
  const auto id = [&](Size i) { return static_cast<std::uint32_t>(tokens[i]); };
  std::uint32_t highest = 0;
  for (Size i = 0; i <= seq_; ++i) highest = std::max(highest, id(i));
  if (highest < vocab) return;
  Size i = 0;
  while (id(i) < vocab) ++i;
  throw DataError("data", fmt::format("{}: the file changed while it was in use: sample {}, position {}: expected a "
                                      "token below the vocabulary {}, found {}",
                                      location.file->path(), index, i, vocab, id(i)));
}

void Samples::read_row(Size index, std::int32_t* inputs, std::int32_t* targets, std::int32_t* tokens) const {
  const SampleLocation location = locate(index);
  read_at(location, index, tokens);
  std::copy_n(tokens, seq_, inputs);
  std::copy_n(tokens + 1, seq_, targets);
  location.file->ignore_masked(location.begin + 1, seq_, targets);
  for (Size i = 0; separates_documents() && i < seq_; ++i) {
    if (is_end(inputs[i])) targets[i] = kIgnoredTarget;
  }
}

bool Samples::is_end(std::int32_t token) const { return static_cast<std::uint32_t>(token) == options_.document_end; }

void Samples::find_documents(const std::int32_t* inputs, std::int32_t* starts) const {
  std::int32_t start = 0;
  for (Size i = 0; i < seq_; ++i) {
    if (i > 0 && is_end(inputs[i - 1])) start = static_cast<std::int32_t>(i);
    starts[i] = start;
  }
}

}  // namespace lt::data

namespace lt {

Size count_samples(const std::vector<DataSource>& sources, Size seq, TokenFormat format) {
  return data::Samples(sources, seq, {.format = format}).per_epoch();
}

}  // namespace lt
