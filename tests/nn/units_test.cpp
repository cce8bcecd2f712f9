// Units: their order in both passes, borrowing, and recomputation, which changes no bit of any gradient.
#include <optional>
#include <string>
#include <utility>

#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "libtrain/nn/layers.h"
#include "nn/passes.h"
#include "test_main/catch.h"
#include "test_main/worst_of.h"

using namespace lt;
using namespace lt_test;
using nn::Recompute;

namespace {

struct Observer final : nn::UnitObserver {
  explicit Observer(Recompute mode, bool blocks_only = false, const nn::Model* model = nullptr)
      : mode_(mode), blocks_only_(blocks_only), model_(model) {}

  void before_forward(int unit) override { events.push_back("f" + std::to_string(unit)); }
  void after_forward(int unit) override { events.push_back("F" + std::to_string(unit)); }
  void before_backward(int unit) override { events.push_back("b" + std::to_string(unit)); }
  void after_backward(int unit) override { events.push_back("B" + std::to_string(unit)); }
  Recompute recompute(int unit) const override {
    return blocks_only_ && !model_->units()[static_cast<std::size_t>(unit)].is_block ? Recompute::none : mode_;
  }

  std::vector<std::string> events;

 private:
  Recompute mode_;
  bool blocks_only_;
  const nn::Model* model_;
};

constexpr Recompute kModes[] = {Recompute::none, Recompute::selective, Recompute::full};

// A model whose first unit has nothing to train and whose last unit only passes a loss on.
struct Plain final : nn::Model {
  struct Shift : nn::Module {};
  struct Layer : nn::Module {
    Layer() : linear(add<nn::Linear>("linear", {.in = 3, .out = 1, .init = nn::Init::normal(1)})) {}
    Tensor forward(const Tensor& x) const { return ops::mean(linear(x)); }
    nn::Linear& linear;
  };
  Plain() : shift(add_unit<Shift>("shift")), layer(add_unit<Layer>("layer")) {}
  Tensor loss(const Batch& batch) override {
    const Tensor y = run(
        shift, [](const Tensor& x) { return ops::scale(x, 2); }, batch.inputs);
    return run(layer, &Layer::forward, y);
  }
  Tensor run_stranger() {
    const Shift stranger;
    return run(stranger, [] { return Tensor(); });
  }
  Tensor run_within(const Tensor& x) {
    return run(
        shift, [this](const Tensor& y) { return run(layer, &Layer::forward, y); }, x);
  }
  Shift& shift;
  Layer& layer;
};

// Its first unit makes two tensors, both of which the second one uses. `leaks`: the second tensor leaves by a member,
// not by the result. `view`: a view of it does.
struct Forked final : nn::Model {
  struct Layer : nn::Module {
    explicit Layer(Size out) : linear(add<nn::Linear>("linear", {.in = 3, .out = out, .init = nn::Init::normal(1)})) {}
    std::pair<Tensor, Tensor> fork(const Tensor& x) const {
      const Tensor y = linear(x);
      return {ops::gelu(y), ops::tanh(y)};
    }
    Tensor join(const Tensor& a, const Tensor& b) const { return ops::mean(linear(ops::mul(a, b))); }
    nn::Linear& linear;
  };
  enum class Way { returned, leaked, leaked_view, leaked_loss, kept_too };
  explicit Forked(Way way_ = Way::returned)
      : way(way_), first(add_block<Layer>("first", 3)), last(add_unit<Layer>("last", 1)) {}
  Tensor loss(const Batch& batch) override {
    if (way == Way::returned) {
      const auto [a, b] = run(first, &Layer::fork, batch.inputs);
      return run(last, &Layer::join, a, b);
    }
    if (way == Way::kept_too) {
      const auto keep = [this](const Tensor& x) { return kept = first.fork(x).first; };
      const Tensor a = run(first, keep, batch.inputs);
      return run(last, &Layer::join, a, kept);
    }
    const auto leak = [this](const Tensor& x) {
      const auto [a, b] = first.fork(x);
      kept = way == Way::leaked_view ? b.view({x.dim(0), 3}) : b;
      return a;
    };
    const Tensor a = run(first, leak, batch.inputs);
    if (way == Way::leaked_loss) return kept = ops::sum(kept);
    return run(last, &Layer::join, a, kept);
  }
  Tensor run_with_capture(const Tensor& x) {
    const double factor = 2;
    return run(
        first, [&factor](const Tensor& y) { return ops::scale(y, factor); }, x);
  }
  Way way;
  Layer &first, &last;
  Tensor kept;
};

}  // namespace

TEST_CASE("units stand in the order in which they run", "[nn]") {
  for (const std::string& family : family_names()) {
    const auto model = nn::make_transformer(two_blocks(family));
    std::vector<std::string> names;
    std::vector<bool> blocks;
    for (const nn::UnitInfo& unit : model->units()) names.push_back(unit.name), blocks.push_back(unit.is_block);
    CHECK(names == std::vector<std::string>{"embedding", "blocks.0", "blocks.1", "head"});
    CHECK(blocks == std::vector<bool>{false, true, true, false});
  }
}

TEST_CASE("the observer sees units forward in order and backward in reverse", "[nn]") {
  const auto model = model_of(two_blocks("llama"), DType::f32);
  const Batch batch = tokens_of(0, 2, 8, 29);
  const std::vector<std::string> forward = {"f0", "F0", "f1", "F1", "f2", "F2", "f3", "F3"};
  std::vector<std::string> both = forward;
  for (const char* event : {"b3", "B3", "b2", "B2", "b1", "B1", "b0", "B0"}) both.emplace_back(event);
  for (const Recompute mode : kModes) {
    Observer observer(mode);
    model->set_observer(&observer);
    run_pass(*model, batch);
    CHECK(observer.events == both);
  }
  Observer observer(Recompute::full);
  model->set_observer(&observer);
  model->loss(batch);  // without a tape, nothing is recorded
  CHECK(observer.events == forward);
  model->set_observer(nullptr);
  model->loss(batch);
  CHECK(observer.events.size() == forward.size());
}

TEST_CASE("recomputation leaves loss and gradients as they are, bit by bit", "[nn]") {
  for (const std::string& family : family_names()) {
    for (const double dropout : {0.0, 0.2}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        for (const std::optional<double> loss_gradient : {std::optional<double>(), std::optional<double>(0.25)}) {
          nn::TransformerSpec spec = two_blocks(family);
          spec.dropout = dropout;
          const auto model = model_of(spec, dtype);
          const Batch batch = tokens_of(0, 3, 12, spec.vocab);
          const auto pass = [&](nn::Model& of) {
            ops::LossPass loss{.gradient = loss_gradient};
            return run_pass(of, batch, {.training = true, .seed = 9, .first_sample = 5, .loss = {.pass = &loss}});
          };
          const Pass expected = pass(*model);
          CHECK(expected.gradients.size() == model->all_parameters().size());
          for (const Recompute mode : kModes) {
            for (const bool blocks_only : {true, false}) {
              Observer observer(mode, blocks_only, model.get());
              model->set_observer(&observer);
              INFO(family << " dropout " << dropout << " " << dtype_name(dtype) << " recompute "
                          << static_cast<int>(mode) << (blocks_only ? " of blocks" : " of all units"));
              CHECK(pass(*model) == expected);
              model->set_observer(nullptr);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("recomputation holds less between the passes: all, matmuls alone, inputs of blocks alone", "[nn]") {
  for (const std::string& family : family_names()) {
    const nn::TransformerSpec spec = two_blocks(family);
    const auto model = model_of(spec, DType::f32);
    const Batch batch = tokens_of(0, 4, 12, spec.vocab);
    std::vector<Size> held;
    for (const Recompute mode : kModes) {
      Observer observer(mode, true, model.get());
      model->set_observer(&observer);
      const Size before = memory_live(kCpu).of(MemoryOwner::activations);
      Tape tape;
      const TapeScope recording(&tape);
      const Tensor loss = model->loss(batch);
      held.push_back(memory_live(kCpu).of(MemoryOwner::activations) - before);
      model->set_observer(nullptr);
    }
    INFO(family << " " << held[0] << " " << held[1] << " " << held[2]);
    CHECK(held[1] < held[0]);
    CHECK(held[2] < held[1]);
    // [4, 12, 16] inputs of two blocks and of the head, f32; the head keeps its norm, and of all units a few rows'
    // sums.
    const Size row = 4 * 12 * 16 * 4;
    CHECK(held[2] >= 3 * row);
    CHECK(held[2] <= 5 * row);
  }
}

TEST_CASE("tied: the head borrows the embedding, whose gradient is the sum of both uses", "[nn]") {
  for (const std::string& family : family_names()) {
    nn::TransformerSpec spec = two_blocks(family);
    spec.tie_embeddings = true;
    const auto tied = model_of(spec, DType::f64);
    spec.tie_embeddings = false;
    const auto untied = model_of(spec, DType::f64);
    CHECK(tied->units()[3].borrows == std::vector<int>{0});
    CHECK(untied->units()[3].borrows.empty());
    CHECK(untied->parameter_count() == tied->parameter_count() + 29 * 16);

    for (const nn::NamedParameter& entry : untied->all_parameters()) {
      if (entry.name == "head.lm.weight")
        copy(entry.parameter->tensor(), tied->all_parameters()[0].parameter->tensor());
    }
    const Batch batch = tokens_of(0, 2, 8, spec.vocab);
    const Pass one = run_pass(*tied, batch), two = run_pass(*untied, batch);
    CHECK(one.loss == two.loss);
    const auto& sum = one.gradients.at("embedding.wte.weight");
    const auto &a = two.gradients.at("embedding.wte.weight"), &b = two.gradients.at("head.lm.weight");
    double worst = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) worst = worst_of(worst, std::abs(sum[i] - a[i] - b[i]));
    CHECK(worst < 1e-15);  // sums of f64 numbers below 1 in another order
    for (const auto& [name, gradient] : one.gradients) {
      if (name != "embedding.wte.weight") CHECK(gradient == two.gradients.at(name));
    }
  }
}

TEST_CASE("a unit with nothing to train, under every recomputation", "[nn]") {
  const Batch batch{Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}), Tensor()};
  for (const Recompute mode : kModes) {
    Plain model;
    model.materialize(kCpu, DType::f32, kSeed);
    Observer observer(mode);
    model.set_observer(&observer);
    const Pass pass = run_pass(model, batch);
    CHECK(pass.gradients.at("layer.linear.weight") == std::vector<double>{5, 7, 9});  // means of 2 x
    CHECK(pass.gradients.at("layer.linear.bias") == std::vector<double>{1});
  }
}

TEST_CASE("a body may return several tensors, with the same gradients under every recomputation", "[nn]") {
  const Batch batch{Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}), Tensor()};
  std::optional<Pass> expected;
  for (const Recompute mode : kModes) {
    Forked model;
    model.materialize(kCpu, DType::f32, kSeed);
    Observer observer(mode);
    model.set_observer(&observer);
    const Pass pass = run_pass(model, batch);
    if (!expected) expected = pass;
    CHECK(pass == *expected);
  }
  for (const double gradient : expected->gradients.at("first.linear.bias")) CHECK(gradient != 0);
}

TEST_CASE("a tensor that leaves a body other than by its result is refused, under every recomputation", "[nn]") {
  const Batch batch{Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}), Tensor()};
  const std::string made =
      " made in the body of unit first: expected a use inside that body, found one outside of it, by ";
  for (const Recompute mode : kModes) {
    for (const auto& [way, message] : {std::pair{Forked::Way::leaked, "a tensor of shape [2, 3]" + made + "mul"},
                                       {Forked::Way::leaked_view, "a tensor of shape [2, 3]" + made + "mul"},
                                       {Forked::Way::leaked_loss, "a tensor of shape [2, 3]" + made + "sum"}}) {
      Forked model(way);
      model.materialize(kCpu, DType::f32, kSeed);
      Observer observer(mode);
      model.set_observer(&observer);
      CHECK_THROWS_WITH(run_pass(model, batch), message);
    }
  }
}

TEST_CASE("a result that also leaves by a member has its gradient, or is refused where it would have none", "[nn]") {
  const Batch batch{Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}), Tensor()};
  std::optional<Pass> expected;
  for (const Recompute mode : kModes) {
    Forked model(Forked::Way::kept_too);
    model.materialize(kCpu, DType::f32, kSeed);
    Observer observer(mode);
    model.set_observer(&observer);
    if (mode == Recompute::full) {
      CHECK_THROWS_AS(run_pass(model, batch), UsageError);
      continue;
    }
    const Pass pass = run_pass(model, batch);
    if (!expected) expected = pass;
    CHECK(pass == *expected);
  }
}

TEST_CASE("a body that captures something other than its model is refused, under every recomputation", "[nn]") {
  const double factor = 2, other = 3;
  const auto many = [&](const Tensor& x) { return ops::scale(x, factor * other); };
  CHECK(!nn::detail::is_small_capture<decltype(many)>);  // run() does not compile with it
  for (const Recompute mode : kModes) {
    Forked model;
    model.materialize(kCpu, DType::f32, kSeed);
    Observer observer(mode);
    model.set_observer(&observer);
    CHECK_THROWS_WITH(model.run_with_capture(Tensor::zeros({1, 3}, DType::f32)),
                      "run(): the body of unit first: expected a lambda that captures at most `this`, found another "
                      "capture");
  }
}

TEST_CASE("a module that is no unit cannot be run as one", "[nn]") {
  Plain model;
  CHECK_THROWS_AS(model.run_stranger(), UsageError);
  model.materialize(kCpu, DType::f32, kSeed);
  const Batch batch{Tensor::zeros({1, 3}, DType::f32), Tensor()};
  CHECK_THROWS_WITH(model.run_within(batch.inputs),
                    "run(): expected units to run one after the other, got unit layer in the body of unit shift");
  CHECK(model.loss(batch).defined());  // it can go on
}
