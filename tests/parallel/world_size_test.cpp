// The same global batch gives the same losses on any number of ranks, with any accumulation, and with hybrid sharding.
#include "libtrain/parallel/engine.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kGlobalBatch = 12, kSteps = 6;

// f32 sums in another order: errors of about 1e-7 of each term, grown over six steps.
constexpr double kTolerance = 1e-5;

void check_close(const Curve& actual, const Curve& expected, double tolerance) {
  for (std::size_t i = 0; i < expected.losses.size(); ++i) {
    CHECK(actual.losses[i] == Approx(expected.losses[i]).epsilon(tolerance));
    CHECK(actual.norms[i] == Approx(expected.norms[i]).epsilon(10 * tolerance));
  }
}

}  // namespace

TEST_CASE("losses do not depend on the number of ranks, accumulation or strategy", "[parallel]") {
  const Group& group = ranks();
  for (const char* preset : {"gpt-tiny", "llama-tiny"}) {
    nn::TransformerSpec spec = small_spec(preset);
    for (const double dropout : {0.0, 0.1}) {
      spec.dropout = dropout;
      // Each rank computes the reference alone.
      const Curve expected =
          train_curve(spec, Group(), {}, {.micro_batch = kGlobalBatch, .accum = 1, .seq = 16}, kSteps);
      for (const Size accum : {1, 2, 3}) {
        const Size micro_batch = kGlobalBatch / group.size() / accum;
        if (micro_batch * group.size() * accum != kGlobalBatch) continue;
        const EngineOptions options{.micro_batch = micro_batch, .accum = accum, .seq = 16};
        for (const Strategy& strategy : kStrategies) {
          INFO(preset << " " << strategy.name << " ranks " << group.size() << " accum " << accum << " dropout "
                      << dropout);
          check_close(train_curve(spec, group, {.strategy = strategy}, options, kSteps), expected, kTolerance);
          if (group.size() == 4 && strategy != Strategy::ddp) {
            const ParallelOptions hybrid{.strategy = strategy, .shard_size = 2, .recompute = Recompute::full};
            check_close(train_curve(spec, group, hybrid, options, kSteps), expected, kTolerance);
          }
        }
      }
    }
  }
}

TEST_CASE("bf16 on the wire stays close", "[parallel]") {
  const Group& group = ranks();
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  const EngineOptions options{.micro_batch = 2, .accum = 1, .seq = 16};
  const Curve expected = train_curve(spec, group, {}, options, kSteps);
  for (const Strategy& strategy : kStrategies) {
    const ParallelOptions parallel{.strategy = strategy, .reduce_dtype = DType::bf16};
    // Rounding each rank's gradient to 8 bits moves the loss by far less than its own steps.
    check_close(train_curve(spec, group, parallel, options, kSteps), expected, group.size() == 1 ? kTolerance : 2e-3);
  }
}

TEST_CASE("after every step all ranks compute with the same parameters", "[parallel]") {
  const Group& group = ranks();
  nn::TransformerSpec spec = small_spec("gpt-tiny");
  spec.vocab = 37, spec.width = 24, spec.heads = 2, spec.kv_heads = 2, spec.ffn = 20;  // shards end anywhere
  const auto check = [&](const ParallelOptions& parallel, DType dtype) {
    const auto model = nn::make_transformer(spec);
    Engine engine(*model, group, parallel, AdamW{.lr = 1e-3f},
                  {.micro_batch = 2, .accum = 2, .seq = 16, .dtype = dtype, .device = test_device()});
    INFO(parallel.strategy.name << " shard_size " << parallel.shard_size << " " << dtype_name(dtype) << ", "
                                << dtype_name(parallel.reduce_dtype) << " on the wire");
    std::vector<std::string> before;
    for (Size step = 0; step < 2; ++step) {
      engine.step(rows_of_step(engine.batch_shape(), step, spec.vocab));
      std::string mine;  // the exact bytes of the next forward pass's parameters
      engine.with_parameters([&] {
        for (const nn::NamedParameter& entry : model->all_parameters()) {
          const Tensor& there = entry.parameter->tensor();
          const Tensor tensor = Tensor::empty(there.shape(), there.dtype());
          copy(tensor, there);
          mine.append(static_cast<const char*>(tensor.data()), static_cast<std::size_t>(tensor.bytes()));
        }
      });
      CHECK(mine.size() == static_cast<std::size_t>(model->parameter_count() * dtype_bytes(dtype)));
      const std::vector<std::string> all = group.all_gather_bytes(mine);
      for (const std::string& other : all) CHECK((other == all[0]));  // a failure need not print them
      CHECK((all != before));
      before = all;
    }
  };
  for (const Strategy& strategy : kStrategies) {
    for (const auto& [dtype, wire] : {std::pair{DType::f32, DType::bf16}, std::pair{DType::bf16, DType::f32}}) {
      check({.strategy = strategy, .reduce_dtype = wire}, dtype);
      if (group.size() == 4 && strategy != Strategy::ddp) {
        check({.strategy = strategy, .shard_size = 2, .reduce_dtype = wire}, dtype);
      }
    }
  }
}
