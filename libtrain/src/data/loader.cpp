// Decides which tokens a rank reads at each step. A batch depends only on its position; the loader keeps no random
// state.
#include <fmt/format.h>

#include <algorithm>

#include "data/file_list.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "libtrain/memory/memory.h"

namespace lt {
namespace {

void require_positive(const char* name, Size value) {
  if (value < 1) throw UsageError("data", fmt::format("batch shape, {}: expected at least 1, got {}", name, value));
}

}  // namespace

TokenLoader::TokenLoader(const std::vector<std::string>& files, const BatchShape& shape, const DataOptions& options)
    : shape_(shape), options_(options) {
  require_positive("micro_batch", shape.micro_batch);
  require_positive("accum", shape.accum);
  require_positive("seq", shape.seq);
  require_positive("ranks", shape.ranks);
  if (shape.rank < 0 || shape.rank >= shape.ranks) {
    throw UsageError("data", fmt::format("batch shape, rank: expected 0 to {}, got {}", shape.ranks - 1, shape.rank));
  }
  if (files.empty())
    throw UsageError("data", "expected at least one token file, got none", "`ltrain prepare` makes them");

  first_block_.push_back(0);
  for (const std::string& path : expand_files(files)) {
    const TokenFile& file = files_.emplace_back(path, options.format);
    if (file.tokens() < shape.seq + 1) {
      throw DataError("data",
                      fmt::format("{}: expected at least {} tokens (one sequence of {} and the token after it), "
                                  "found {}",
                                  path, shape.seq + 1, shape.seq, file.tokens()),
                      "use a shorter train.seq, or more data");
    }
    first_block_.push_back(first_block_.back() + (file.tokens() - 1) / shape.seq);
  }
  // Ids are i32 in memory, which is the limit if no vocabulary is given.
  const Size limit = options.vocab > 0 ? options.vocab : Size{1} << 31;
  for (const TokenFile& file : files_) {
    file.require_below(limit, file.tokens() * shape.rank / shape.ranks, file.tokens() * (shape.rank + 1) / shape.ranks);
  }
  const MemoryScope owner(MemoryOwner::data);
  const Shape tokens{shape.samples(), shape.seq};
  batch_ = {Tensor::empty(tokens, DType::i32), Tensor::empty(tokens, DType::i32)};
  sample_.resize(static_cast<std::size_t>(shape.seq + 1));
}

Size TokenLoader::tokens() const {
  Size sum = 0;
  for (const TokenFile& file : files_) sum += file.tokens();
  return sum;
}

Size TokenLoader::samples_per_epoch() const { return first_block_.back(); }

bool TokenLoader::has_ignored_targets() const {
  return std::any_of(files_.begin(), files_.end(), [](const TokenFile& file) { return file.has_mask(); });
}

TokenLoader::Place TokenLoader::place_of(Size index) const {
  if (index < 0) throw InternalError("data", fmt::format("expected a sample index of at least 0, got {}", index));
  const Size epoch = index / samples_per_epoch();
  Size block = index % samples_per_epoch();
  if (options_.shuffle) {
    block = permuted(derive_key(options_.seed, fmt::format("data.epoch.{}", epoch)), block, samples_per_epoch());
  }
  const auto file = std::upper_bound(first_block_.begin(), first_block_.end(), block) - first_block_.begin() - 1;
  const auto f = static_cast<std::size_t>(file);
  return {&files_[f], (block - first_block_[f]) * shape_.seq};
}

void TokenLoader::read_sample(Size index, std::int32_t* tokens) const {
  const Place place = place_of(index);
  place.file->read(place.begin, shape_.seq + 1, tokens);
}

Batch TokenLoader::next() {
  const Size rows = shape_.samples(), seq = shape_.seq;
  for (Size row = 0; row < rows; ++row) {
    const Place place = place_of(position_ + shape_.rank * rows + row);
    std::int32_t* const targets = batch_.targets.data<std::int32_t>() + row * seq;
    place.file->read(place.begin, seq + 1, sample_.data());
    std::copy_n(sample_.data(), seq, batch_.inputs.data<std::int32_t>() + row * seq);
    std::copy_n(sample_.data() + 1, seq, targets);
    place.file->ignore_masked(place.begin + 1, seq, targets);
  }
  position_ += shape_.global_samples();
  return batch_;
}

}  // namespace lt
