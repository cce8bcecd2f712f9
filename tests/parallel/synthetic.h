// A small model, a fixed global batch, and steps of an engine on them.
#pragma once

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "device/fault.h"
#include "kernels/documents.h"
#include "libtrain/kernels/random.h"
#include "libtrain/nn/models.h"
#include "libtrain/ops/ops.h"
#include "libtrain/parallel/engine.h"
#include "test_main/world.h"

namespace lt_test {

using lt::Size;

inline lt::nn::TransformerSpec small_spec(const std::string& preset) {
  lt::nn::TransformerSpec spec = lt::nn::preset(preset);
  spec.layers = 3, spec.max_seq = 16;
  return spec;
}

// A GPT whose loss is a multiple of the usual one.
struct Scaled final : lt::nn::Gpt2 {
  explicit Scaled(const lt::nn::TransformerSpec& spec, double factor_ = 1) : Gpt2(spec), factor(factor_) {}
  lt::Tensor loss(const lt::Batch& batch) override { return lt::ops::scale(Gpt2::loss(batch), factor); }
  double factor;
};

// A rank's samples of an endless sequence, from `first` on: `seq` tokens and their successors, the same for every
// caller.
inline lt::Batch synthetic_batch(Size first, const lt::BatchShape& shape, Size vocab) {
  std::vector<std::int32_t> inputs, targets;
  const Size count = shape.samples(), seq = shape.seq;
  for (Size row = 0; row < count; ++row) {
    for (Size t = 0; t <= seq; ++t) {
      const auto word = lt::philox_word(42, static_cast<std::uint64_t>((first + shape.sample_of(row)) * 1024 + t));
      const auto token = static_cast<std::int32_t>(word % static_cast<std::uint64_t>(vocab));
      if (t < seq) inputs.push_back(token);
      if (t > 0) targets.push_back(token);
    }
  }
  return {lt::Tensor::from(inputs, {count, seq}), lt::Tensor::from(targets, {count, seq})};
}

inline lt::Batch synthetic_batch(Size first, Size count, Size seq, Size vocab) {
  return synthetic_batch(first, {.micro_batch = count, .seq = seq}, vocab);
}

// A checksum over all elements of masters, m and v that depends on each value's position, but not on its owner.
inline std::uint64_t state_checksum(const lt::Engine& engine, const lt::Group& group) {
  std::uint64_t sum = 0;
  for (const lt::StateRange& range : engine.shard_map().owned) {
    const std::uint64_t key = lt::derive_key(0, range.kind + "/" + range.parameter);
    const std::vector<float> values = range.values.to_vector<float>();
    for (Size i = range.begin; i < range.end; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[static_cast<std::size_t>(i - range.begin)]);
      sum += (key + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15ull) * (2 * std::uint64_t{bits} + 1);
    }
  }
  std::uint64_t total = 0;
  for (const std::string& part : group.all_gather_bytes(std::to_string(sum))) total += std::stoull(part);
  return total;
}

struct Curve {
  std::vector<float> losses, norms;
  std::uint64_t state = 0;  // state_checksum() after the last step
  bool operator==(const Curve&) const = default;
};

// The rank's rows of step n.
inline lt::Batch rows_of_step(const lt::BatchShape& shape, Size step, Size vocab) {
  return synthetic_batch(step * shape.global_samples(), shape, vocab);
}

// The same rows, of which sample s ignores its first (5 s) % (seq + 1) targets. So samples differ, and some have none
// that counts.
inline lt::Batch partly_ignored_rows(const lt::BatchShape& shape, Size step, Size vocab) {
  const lt::Batch batch = rows_of_step(shape, step, vocab);
  for (Size row = 0; row < shape.samples(); ++row) {
    const Size sample = step * shape.global_samples() + shape.sample_of(row);
    std::fill_n(batch.targets.data<std::int32_t>() + row * shape.seq, sample * 5 % (shape.seq + 1), lt::kIgnoredTarget);
  }
  return batch;
}

// The same rows cut into documents of 1 token, 7, and 5 or more in turn.
inline lt::Batch documents_of_step(const lt::BatchShape& shape, Size step, Size vocab) {
  lt::Batch batch = rows_of_step(shape, step, vocab);
  std::vector<std::int32_t> starts;
  for (Size row = 0; row < shape.samples(); ++row) {
    const auto of_row = lt::test::document_starts(1, shape.seq, {5 + shape.sample_of(row) % 3, 1, 7});
    starts.insert(starts.end(), of_row.begin(), of_row.end());
  }
  batch.document_starts = lt::Tensor::from(starts, {shape.samples(), shape.seq});
  return batch;
}

inline Curve train_curve(const lt::nn::TransformerSpec& spec, const lt::Group& group,
                         const lt::ParallelOptions& parallel, lt::EngineOptions options, Size steps,
                         const lt::OptimizerGroups& optimizer = lt::AdamW{.lr = 1e-3f},
                         lt::Batch (*batch_of_step)(const lt::BatchShape&, Size, Size) = rows_of_step) {
  options.device = test_device();
  const auto model = lt::nn::make_transformer(spec);
  lt::Engine engine(*model, group, parallel, optimizer, options);
  Curve curve;
  for (Size step = 0; step < steps; ++step) {
    lt::device::set_fault_step(step + 1);
    const lt::StepResult result = engine.step(batch_of_step(engine.batch_shape(), step, spec.vocab));
    curve.losses.push_back(result.loss());
    curve.norms.push_back(result.norm());
  }
  curve.state = state_checksum(engine, group);
  return curve;
}

}  // namespace lt_test
