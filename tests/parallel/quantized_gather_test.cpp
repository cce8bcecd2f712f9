// ZeRO-3 in FP8 gathers the matrices of blocks in e4m3 if no operation reads their values, and gives the same bits as
// DDP.
#include <string>
#include <utility>
#include <vector>

#include "libtrain/error.h"
#include "libtrain/nn/layers.h"
#include "libtrain/ops/ops.h"
#include "libtrain/parallel/engine.h"
#include "parallel/for_tests.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

// With this width shards end within rows on two and on three ranks. From five ranks on the exchange would take more
// than it saves.
constexpr Size kVocab = 48, kWidth = 48, kSeq = 16;

// Whether an operation reads the values of a matrix of the second block; if hidden, not in a rehearsal.
enum class Reads { no, yes, hidden };

// Two blocks of matrices that can be gathered in e4m3 (plain, up), that have no multiple of 16 rows (odd), and that
// begin at a place that is not aligned (late).
class Reader final : public nn::Model {
 public:
  struct Embed final : nn::Module {
    Embed() : table(add<nn::Embedding>("table", {.count = kVocab, .width = kWidth, .init = nn::Init::normal(0.5f)})) {}
    nn::Embedding& table;
  };
  struct Block final : nn::Module {
    explicit Block(Size odd_rows)
        : norm(add<nn::RmsNorm>("norm", {.width = kWidth})),
          up(add<nn::Linear>("up", {.in = kWidth, .out = 3 * kWidth, .init = nn::Init::normal(0.2f)})),
          odd(add<nn::Linear>("odd", {.in = kWidth, .out = odd_rows, .bias = false, .init = nn::Init::normal(0.2f)})),
          late(add<nn::Linear>("late", {.in = kWidth, .out = 16, .bias = false, .init = nn::Init::normal(0.2f)})),
          plain(add_parameter("plain", {kWidth, 3 * kWidth}, nn::Init::normal(0.2f))) {}
    Tensor forward(const Tensor& x, Reads reads) const {
      const Tensor normed = norm(x), h = ops::gelu(up(normed)),
                   gate = ops::add(ops::mean(odd(normed)), ops::mean(late(normed)));
      if (reads == Reads::hidden && !x.device().is_meta()) plain.tensor().require_values();
      const Tensor weight = reads == Reads::yes ? ops::scale(plain.tensor(), 2) : plain.tensor();
      return ops::add(ops::linear(h, weight, {}, x), gate);
    }
    nn::RmsNorm& norm;
    nn::Linear &up, &odd, &late;
    nn::Parameter& plain;
  };

  Reader(Reads reads, Size odd_rows) : reads_(reads), embed_(add_unit<Embed>("embed")) {
    for (int i = 0; i < 2; ++i) blocks_.push_back(&add_block<Block>("blocks." + std::to_string(i), odd_rows));
    head_ = &add_unit<nn::Linear>("head", {.in = kWidth, .out = kVocab, .bias = false, .init = nn::Init::normal(0.1f)});
  }

  Tensor loss(const Batch& batch) override {
    Tensor x = run(
        embed_, [this](const Tensor& ids) { return embed_.table(ids); }, batch.inputs);
    for (Block* block : blocks_) {
      const Reads reads = block == blocks_.back() ? reads_ : Reads::no;
      x = run(*block, &Block::forward, x, reads);
    }
    const auto loss_of = [this](const Tensor& y, const Tensor& targets) {
      return nn::cross_entropy((*head_)(y), targets);
    };
    return run(*head_, loss_of, x, batch.targets);
  }

 private:
  Reads reads_;
  Embed& embed_;
  std::vector<Block*> blocks_;
  nn::Linear* head_ = nullptr;
};

struct How {
  Strategy strategy = Strategy::zero3;
  Reads reads = Reads::no;
  bool fp8 = true, arena = true;
  Recompute recompute = Recompute::none;
  int shard_size = 0;
  std::vector<std::string> frozen = {};
  Size odd_rows = 4;
};

struct Trained {
  Curve curve;
  std::vector<float> evaluated;    // with rows in multiples of 16, and with others
  std::vector<double> weight;      // of a matrix, read between steps
  Size gathered = 0, gathers = 0;  // in a step: bytes that this rank sent, and calls
};

Trained train(const How& how) {
  Reader model(how.reads, how.odd_rows);
  const EngineOptions options{
      .micro_batch = 2, .accum = 2, .seq = kSeq, .dtype = DType::bf16, .device = test_device(), .fp8 = how.fp8};
  const ParallelOptions how_sharded{.strategy = how.strategy,
                                    .shard_size = how.shard_size,
                                    .recompute = how.recompute,
                                    .deterministic = Determinism::on};
  OptimizerGroups optimizer({{"*", AdamW{}}}, 1e-2, 1.0);
  optimizer.frozen = how.frozen;
  std::optional<parallel::SeparateAllocationScope> separate;
  if (!how.arena) separate.emplace();
  Engine engine(model, ranks(), how_sharded, optimizer, options);
  Trained trained;
  for (Size step = 0; step < 4; ++step) {
    static_cast<void>(take_comm_totals());
    const StepResult result = engine.step(rows_of_step(engine.batch_shape(), step, kVocab));
    trained.curve.losses.push_back(result.loss()), trained.curve.norms.push_back(result.norm());
    trained.gathered = trained.gathers = 0;
    for (const CommTotal& total : take_comm_totals()) {
      if (total.op == CollectiveOp::all_gather) trained.gathered += total.bytes, trained.gathers += total.calls;
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
  const auto check = [](const How& how, const How& reference) {
    INFO("reads " << static_cast<int>(how.reads) << ", recompute " << static_cast<int>(how.recompute) << ", arena "
                  << how.arena << ", " << how.frozen.size() << " frozen, shards " << how.shard_size);
    const Trained actual = train(how), expected = train(reference);
    CHECK(actual.curve == expected.curve);
    CHECK(actual.evaluated == expected.evaluated);
    CHECK_FALSE(actual.weight.empty());
    CHECK(actual.weight == expected.weight);
  };
  for (const Reads reads : {Reads::no, Reads::yes}) {
    const How ddp{.strategy = Strategy::ddp, .reads = reads};
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      check({.reads = reads, .recompute = recompute}, ddp);
    }
    check({.reads = reads, .arena = false}, ddp);
  }
  const std::vector<std::string> frozen = {"blocks.*.up*", "blocks.0.norm*"};
  check({.frozen = frozen}, {.strategy = Strategy::ddp, .frozen = frozen});
  if (ranks().size() == 4) check({.shard_size = 2}, {.strategy = Strategy::zero1, .shard_size = 2});
}

TEST_CASE("gathers in e4m3: only of blocks whose values no operation reads, where it saves bytes", "[parallel]") {
  if (ranks().size() == 1) return;
  const Trained in_bf16 = train({.fp8 = false}), none_read = train({}), one_read = train({.reads = Reads::yes});
  CHECK(one_read.gathered > none_read.gathered);
  CHECK(in_bf16.gathered - one_read.gathered == one_read.gathered - none_read.gathered);
  // Each of two blocks has 15,040 elements. It is gathered four times in a step of two micro-batches and exchanges
  // once: largest magnitudes of 192 rows of plain and up, and 1,216 other elements in bf16.
  const Size N = ranks().size(), padded = (15040 + 64 * N - 1) / (64 * N) * (64 * N);
  CHECK(in_bf16.gathered - none_read.gathered == 2 * (N - 1) * (4 * padded / N - (4 * 192 + 2 * 1216)));
  CHECK(none_read.gathers == in_bf16.gathers + 2);
  CHECK(one_read.gathers == in_bf16.gathers + 1);
  // With more in bf16, all ranks' exchange takes between one and two times the bytes of the matrices in e4m3.
  const Size odd_rows = N == 2 ? 68 : N == 3 ? 33 : 17;
  CHECK(train({.odd_rows = odd_rows}).gathered == train({.fp8 = false, .odd_rows = odd_rows}).gathered);
}

TEST_CASE("gathers in e4m3: values that the rehearsal did not read are an error", "[parallel]") {
  if (ranks().size() == 1) return;
  Reader model(Reads::hidden, 4);
  {
    const EngineOptions options{
        .micro_batch = 2, .seq = kSeq, .dtype = DType::bf16, .device = test_device(), .fp8 = true};
    Engine engine(model, ranks(), {.strategy = Strategy::zero3}, AdamW{}, options);
    const Batch batch = rows_of_step(engine.batch_shape(), 0, kVocab);
    CHECK_THROWS_MATCHES(
        engine.step(batch), InternalError,
        Catch::Matchers::Message("blocks.1.plain: its values were read, which the rehearsal did not do, "
                                 "so it was gathered in e4m3"));
    CHECK_THROWS_AS(engine.step(batch), UsageError);
    CHECK_THROWS_AS(engine.with_parameters([] {}), UsageError);
  }
  Size found = 0;
  for (const nn::NamedParameter& entry : model.all_parameters()) {  // outlive the engine
    if (!entry.name.starts_with("blocks.1.")) continue;
    ++found;
    CHECK_THROWS_WITH(entry.parameter->tensor().require_values(),
                      Catch::Matchers::ContainsSubstring("its unit is not gathered"));
  }
  CHECK(found == 6);
}
