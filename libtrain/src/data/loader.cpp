// Gives each rank its share of every batch. A batch depends only on its position; the loader keeps no random state.
#include <fmt/format.h>

#include <algorithm>

#include "data/read_ahead.h"
#include "data/samples.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"

namespace lt {
namespace {

void require_positive(const char* name, Size value) {
  if (value < 1) throw UsageError("data", fmt::format("batch shape, {}: expected at least 1, got {}", name, value));
}

// Each rank scans its share of every file.
void require_vocabulary(const data::Samples& samples, const BatchShape& shape) {
  for (const TokenFile& file : samples.files()) {
    file.require_below(samples.token_limit(), file.tokens() * shape.rank / shape.ranks,
                       file.tokens() * (shape.rank + 1) / shape.ranks);
  }
}

}  // namespace

TokenLoader::TokenLoader(const std::vector<std::string>& files, const BatchShape& shape, const DataOptions& options)
    : TokenLoader(mix({{files, 1}}, shape, options)) {}

TokenLoader TokenLoader::mix(const std::vector<DataSource>& sources, const BatchShape& shape,
                             const DataOptions& options) {
  require_positive("micro_batch", shape.micro_batch);
  require_positive("accum", shape.accum);
  require_positive("seq", shape.seq);
  require_positive("ranks", shape.ranks);
  if (shape.rank < 0 || shape.rank >= shape.ranks) {
    throw UsageError("data", fmt::format("batch shape, rank: expected 0 to {}, got {}", shape.ranks - 1, shape.rank));
  }
  const auto samples = std::make_shared<const data::Samples>(sources, shape.seq, options);
  require_vocabulary(*samples, shape);
  return TokenLoader(shape, samples);
}

TokenLoader::TokenLoader(const BatchShape& shape, std::shared_ptr<const data::Samples> samples)
    : samples_(std::move(samples)), shape_(shape) {
  const MemoryScope owner(MemoryOwner::data);
  const Shape tokens{shape.samples(), shape.seq};
  batch_ = {Tensor::empty(tokens, DType::i32), Tensor::empty(tokens, DType::i32)};
  if (samples_->separates_documents()) batch_.document_starts = Tensor::empty(tokens, DType::i32);
}

TokenLoader::~TokenLoader() = default;
TokenLoader::TokenLoader(TokenLoader&&) noexcept = default;
TokenLoader& TokenLoader::operator=(TokenLoader&&) noexcept = default;

const std::vector<TokenFile>& TokenLoader::files() const { return samples_->files(); }
Size TokenLoader::sources() const { return samples_->sources(); }
Size TokenLoader::source_of(Size file) const { return samples_->source_of(file); }
Size TokenLoader::first_repeat(Size source) const { return samples_->first_repeat(source); }
bool TokenLoader::has_ignored_targets() const { return samples_->has_ignored_targets(); }

Size TokenLoader::tokens() const {
  Size sum = 0;
  for (const TokenFile& file : files()) sum += file.tokens();
  return sum;
}

Size TokenLoader::samples_per_epoch() const { return samples_->per_epoch(); }

void TokenLoader::read_sample(Size index, std::int32_t* tokens) const { samples_->read(index, tokens); }

void TokenLoader::find_documents() {
  if (!samples_->separates_documents()) return;
  const std::int32_t* const inputs = batch_.inputs.data<std::int32_t>();
  std::int32_t* const starts = batch_.document_starts.data<std::int32_t>();
  for (Size row = 0; row < shape_.samples(); ++row) {
    samples_->find_documents(inputs + row * shape_.seq, starts + row * shape_.seq);
  }
}

Batch TokenLoader::rows(Size first, Size end) {
  const Size seq = shape_.seq;
  std::vector<std::int32_t> sample(static_cast<std::size_t>(seq + 1));
  for (Size row = 0; row < shape_.samples(); ++row) {
    std::int32_t* const inputs = batch_.inputs.data<std::int32_t>() + row * seq;
    std::int32_t* const targets = batch_.targets.data<std::int32_t>() + row * seq;
    if (first + row < end) {
      samples_->read_row(first + row, inputs, targets, sample.data());
    } else {
      std::fill_n(inputs, seq, 0), std::fill_n(targets, seq, kIgnoredTarget);
    }
  }
  find_documents();
  return batch_;
}

Batch TokenLoader::next() {
  if (ahead_ == nullptr) ahead_ = std::make_unique<data::ReadAhead>(samples_, shape_);
  ahead_->take(position_, batch_.inputs.data<std::int32_t>(), batch_.targets.data<std::int32_t>());
  find_documents();
  position_ += shape_.global_samples();
  return batch_;
}

}  // namespace lt
