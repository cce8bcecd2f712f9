// ZeRO-3 in FP8 gathers the matrices of blocks in e4m3 where no operation reads their values, with the bits of DDP.
#include <optional>
#include <vector>

#include "libtrain/nn/layers.h"
#include "libtrain/ops/ops.h"
#include "libtrain/parallel/engine.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kVocab = 48, kWidth = 32, kSeq = 16;

// Two blocks. With `reads`, an operation reads the values of a matrix of the second.
class Reader final : public nn::Model {
 public:
  struct Embed final : nn::Module {
    Embed() : table(add<nn::Embedding>("table", kVocab, kWidth, nn::Init::normal(0.5f))) {}
    nn::Embedding& table;
  };
  struct Block final : nn::Module {
    Block()
        : norm(add<nn::RmsNorm>("norm", kWidth)),
          up(add<nn::Linear>("up", kWidth, 3 * kWidth, true, nn::Init::normal(0.2f))),
          odd(add<nn::Linear>("odd", kWidth, 20, false, nn::Init::normal(0.2f))),
          plain(add_parameter("plain", {kWidth, 3 * kWidth}, nn::Init::normal(0.2f))) {}
    Tensor forward(const Tensor& x, bool reads) const {
      const Tensor normed = norm(x), h = ops::gelu(up(normed)), gate = ops::mean(odd(normed));
      const Tensor weight = reads ? ops::scale(plain.tensor(), 2) : plain.tensor();
      return ops::add(ops::linear(h, weight, {}, x), gate);
    }
    nn::RmsNorm& norm;
    nn::Linear &up, &odd;
    nn::Parameter& plain;
  };

  explicit Reader(bool reads) : reads_(reads), embed_(add_unit<Embed>("embed")) {
    for (int i = 0; i < 2; ++i) blocks_.push_back(&add_block<Block>("blocks." + std::to_string(i)));
    head_ = &add_unit<nn::Linear>("head", kWidth, kVocab, false, nn::Init::normal(0.1f));
  }

  Tensor loss(const Batch& batch) override {
    Tensor x = run(embed_, [this, batch] { return embed_.table(batch.inputs); });
    for (Block* block : blocks_) {
      const bool reads = reads_ && block == blocks_.back();
      x = run(*block, [block, x, reads] { return block->forward(x, reads); });
    }
    return run(*head_, [this, x, batch] { return nn::cross_entropy((*head_)(x), batch.targets); });
  }

 private:
  bool reads_;
  Embed& embed_;
  std::vector<Block*> blocks_;
  nn::Linear* head_ = nullptr;
};

struct Trained {
  Curve curve;
  std::vector<float> evaluated;  // with rows in multiples of 16, and with others
  std::vector<double> weight;    // of a matrix, read between steps
  Size gathered = 0;             // bytes that this rank sent in gathers of a step
};

Trained train(const Strategy& strategy, bool reads, bool fp8, bool arena, Recompute recompute = Recompute::none) {
  Reader model(reads);
  const StepOptions options{
      .micro_batch = 2, .accum = 2, .seq = kSeq, .dtype = DType::bf16, .device = device(), .arena = arena, .fp8 = fp8};
  Engine engine(model, ranks(), {.strategy = strategy, .recompute = recompute, .deterministic = true},
                AdamW{.lr = 1e-2f}, options);
  Trained trained;
  for (Size step = 0; step < 4; ++step) {
    static_cast<void>(take_comm_totals());
    const StepResult result = engine.step(rows_of_step(engine.batch_shape(), step, kVocab));
    trained.curve.losses.push_back(result.loss()), trained.curve.norms.push_back(result.norm());
    trained.gathered = 0;
    for (const CommTotal& total : take_comm_totals()) {
      if (total.op == CollectiveOp::all_gather) trained.gathered += total.bytes;
    }
    for (const auto& [samples, seq] : {std::pair<Size, Size>{2, kSeq}, {1, 9}}) {
      trained.evaluated.push_back(mean_loss(engine.evaluate(synthetic_batch(step * 8, samples, seq, kVocab))));
    }
    engine.with_parameters([&] {
      for (const nn::NamedParameter& entry : model.all_parameters()) {
        if (entry.name == "blocks.1.plain") trained.weight = entry.parameter->tensor().to_vector<double>();
      }
    });
  }
  trained.curve.state = state_checksum(engine, ranks());
  return trained;
}

}  // namespace

TEST_CASE("ZeRO-3 in FP8 gathers blocks in e4m3 with the bits of DDP", "[parallel]") {
  for (const bool reads : {false, true}) {
    const Trained expected = train(Strategy::ddp, reads, true, true);
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      for (const bool arena : {true, false}) {
        if (!arena && recompute == Recompute::selective) continue;
        INFO("reads " << reads << ", recompute " << static_cast<int>(recompute) << ", arena " << arena);
        const Trained actual = train(Strategy::zero3, reads, true, arena, recompute);
        CHECK(actual.curve == expected.curve);
        CHECK(actual.evaluated == expected.evaluated);
        CHECK(actual.weight == expected.weight);
      }
    }
  }
}

TEST_CASE("gathers in e4m3: only of blocks whose values no operation reads, and with an arena", "[parallel]") {
  const Size ranks_but_one = ranks().size() - 1;
  if (ranks_but_one == 0) return;
  const Size in_bf16 = train(Strategy::zero3, false, false, true).gathered,
             none_read = train(Strategy::zero3, false, true, true).gathered,
             one_read = train(Strategy::zero3, true, true, true).gathered,
             without_arena = train(Strategy::zero3, false, true, false).gathered;
  CHECK(without_arena == in_bf16);
  CHECK(in_bf16 > one_read);
  CHECK(one_read > none_read);
  CHECK(in_bf16 - one_read == one_read - none_read);  // each of two blocks saves as much
}
