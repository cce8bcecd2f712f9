// Checkpoints saved by a program that links the library can be sampled, with or without a tokenizer.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/generate/generate.h"
#include "libtrain/libtrain.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"
#include "test_main/worst_of.h"

using namespace lt;
using Catch::Matchers::ContainsSubstring;
using lt_test::TempFolder;

TEST_CASE("save: the tokenizer's text is kept, and read with the model", "[train]") {
  const TempFolder temporary;
  const std::string folder = temporary.text();
  nn::Gpt2 model({.layers = 1, .heads = 1, .width = 8, .vocab = 256, .max_seq = 8});
  Engine engine(model, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8});
  const std::string tokenizer = make_tokenizer("byte")->to_json();

  CHECK(checkpoint::read_state(save(engine, folder + "/with", Group(), {.tokenizer = tokenizer})).tokenizer ==
        tokenizer);
  CHECK(load_model(folder + "/with").tokenizer != nullptr);
  save(engine, folder + "/without", Group());
  CHECK(load_model(folder + "/without").tokenizer == nullptr);
}

TEST_CASE("load_model: weights of another dtype are the masters, rounded; a run's dtype is in its configuration",
          "[train]") {
  const TempFolder folder;
  nn::Gpt2 model({.layers = 1, .heads = 1, .width = 8, .vocab = 256, .max_seq = 8});
  Engine engine(model, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8});
  const auto dtype_of = [](const LoadedModel& loaded) {
    return loaded.model->all_parameters().front().parameter->tensor().dtype();
  };
  const std::string step = save(engine, folder / "unknown", Group());
  CHECK(dtype_of(load_model(step, {.dtype = std::nullopt})) == DType::f32);
  const LoadedModel rounded = load_model(step, {.dtype = DType::bf16});
  for (const nn::NamedParameter& entry : rounded.model->all_parameters()) {
    std::vector<float> expected = checkpoint::read_tensor(step, entry.name);
    for (float& value : expected) value = static_cast<float>(bf16(value));
    CHECK(entry.parameter->tensor().dtype() == DType::bf16);
    CHECK(entry.parameter->tensor().to_vector<float>() == expected);
  }
  checkpoint::RunState state = checkpoint::read_state(step);
  state.config = "[train]\ndtype = \"bf16\"\n";
  const std::string known = checkpoint::save(folder / "known", engine.shard_map(), state, Group());
  CHECK(dtype_of(load_model(known, {.dtype = std::nullopt})) == DType::bf16);
  CHECK(dtype_of(load_model(known)) == DType::f32);
}

TEST_CASE("save and load: the program's state", "[train]") {
  const TempFolder folder;
  nn::Gpt2 model({.layers = 1, .heads = 1, .width = 8, .vocab = 256, .max_seq = 8});
  Engine engine(model, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8});
  CHECK_FALSE(load(engine, folder / "with", Group()).has_value());
  const State state{{"best", "0.25"}, {"seen", std::string("\0\xff", 2)}};
  save(engine, folder / "with", Group(), {.state = state});
  CHECK(load(engine, folder / "with", Group()) == state);
  save(engine, folder / "without", Group());
  CHECK(load(engine, folder / "without", Group()) == State{});
}

TEST_CASE("load: where every checkpoint is damaged the engine is as it began, and the run is told", "[train]") {
  const TempFolder folder;
  const nn::TransformerSpec spec{.layers = 1, .heads = 1, .width = 8, .vocab = 256, .max_seq = 8};
  nn::Gpt2 first(spec), second(spec);
  Engine engine(first, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8}),
      fresh(second, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8});
  const auto ranges = engine.shard_map().needed;
  const auto differing = [&] {
    Size count = 0;
    const auto expected = fresh.shard_map().needed;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      count += ranges[i].values.to_vector<float>() != expected[i].values.to_vector<float>();
    }
    return count;
  };
  for (const StateRange& range : ranges)
    copy(range.values, Tensor::from(std::vector<float>(static_cast<std::size_t>(range.end - range.begin), 0.5f),
                                    {range.end - range.begin}));
  const std::string step = save(engine, folder.text(), Group());
  CHECK(!engine.run().id.empty());
  CHECK(checkpoint::read_state(step).run == engine.run().id);
  CHECK(differing() == static_cast<Size>(ranges.size()));
  REQUIRE(load(fresh, folder.text(), Group()).has_value());
  CHECK(fresh.run().id == engine.run().id);
  CHECK(differing() == 0);
  fresh.initialise();
  // The last byte of the file: everything before it has been read into the engine by then.
  const std::string file = step + "/rank-00000.h5";
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(-1, std::ios::end);
  const char last = static_cast<char>(stream.get());
  stream.seekp(-1, std::ios::end);
  stream.put(static_cast<char>(last ^ 1));
  stream.close();
  CHECK_THROWS_AS(load(engine, folder.text(), Group()), DataError);
  CHECK(differing() == 0);
}

TEST_CASE("an engine that draws no weights has those of any other after initialise()", "[train]") {
  const nn::TransformerSpec spec{.layers = 2, .heads = 2, .width = 16, .vocab = 256, .max_seq = 8};
  nn::Gpt2 first(spec), second(spec);
  const Engine drawn(first, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8});
  Engine later(second, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8, .initial_weights = false});
  const auto all_equal = [&] {
    const auto expected = drawn.shard_map().needed, found = later.shard_map().needed;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (found[i].values.to_vector<float>() != expected[i].values.to_vector<float>()) return false;
    }
    return true;
  };
  CHECK(!all_equal());
  later.initialise();
  CHECK(all_equal());
}

TEST_CASE("save: the loss scale goes on where it was, and begins anew after another dtype", "[train]") {
  const TempFolder folder;
  const auto engine_in = [](nn::Model& model, DType dtype) {
    return Engine(model, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8, .dtype = dtype});
  };
  const nn::TransformerSpec spec{.layers = 1, .heads = 1, .width = 8, .vocab = 256, .max_seq = 8};
  nn::Gpt2 first(spec), second(spec);
  Engine half = engine_in(first, DType::f16), other = engine_in(second, DType::f16);
  const auto is = [](const LossScale& scale, float value, Size steps, Size skipped) {
    return scale.scale == value && scale.steps == steps && scale.skipped == skipped;
  };
  CHECK(is(half.loss_scale(), 65536, 0, 0));
  half.set_loss_scale({512, 123, 7});
  save(half, folder / "f16", Group());
  REQUIRE(load(other, folder / "f16", Group()).has_value());
  CHECK(is(other.loss_scale(), 512, 123, 7));

  nn::Gpt2 third(spec), fourth(spec);
  Engine whole = engine_in(third, DType::f32), again = engine_in(fourth, DType::f16);
  CHECK(is(whole.loss_scale(), 1, 0, 0));
  save(whole, folder / "f32", Group());
  REQUIRE(load(again, folder / "f32", Group()).has_value());
  CHECK(is(again.loss_scale(), 65536, 0, 0));

  // Every dtype takes over how many steps had no update.
  REQUIRE(load(whole, folder / "f16", Group()).has_value());
  CHECK(is(whole.loss_scale(), 1, 0, 7));
  whole.set_loss_scale({1, 0, 3});
  save(whole, folder / "skipped", Group());
  REQUIRE(load(again, folder / "skipped", Group()).has_value());
  CHECK(is(again.loss_scale(), 65536, 0, 3));
  // An engine that goes back has what the checkpoint has.
  REQUIRE(load(whole, folder / "f32", Group()).has_value());
  CHECK(is(whole.loss_scale(), 1, 0, 0));
  REQUIRE(load(again, folder / "f32", Group()).has_value());
  CHECK(is(again.loss_scale(), 65536, 0, 0));
}

TEST_CASE("save and load: bf16 moments and weights go on bit by bit, and become an f32 run's by value", "[train]") {
  const TempFolder folder;
  const nn::TransformerSpec spec{.layers = 2, .heads = 1, .width = 24, .vocab = 256, .max_seq = 8};
  const auto engine_of = [](nn::Model& model, const AdamW& optimizer) {
    return Engine(model, Group(), {}, optimizer, {.micro_batch = 1, .seq = 8, .dtype = DType::bf16});
  };
  const AdamW narrow{.lr = 0.01f, .state_dtype = DType::bf16, .masters = false};
  const Batch batch{Tensor::zeros({1, 8}, DType::i32), Tensor::zeros({1, 8}, DType::i32)};
  nn::Gpt2 first(spec), second(spec), third(spec);
  Engine unbroken = engine_of(first, narrow), resumed = engine_of(second, narrow), wide = engine_of(third, AdamW{});
  for (int step = 0; step < 3; ++step) unbroken.step(batch);
  save(unbroken, folder.text(), Group());
  REQUIRE(load(resumed, folder.text(), Group()).has_value());
  REQUIRE(load(wide, folder.text(), Group()).has_value());
  const auto values_of = [](const Engine& engine) {
    std::vector<float> values;
    for (const StateRange& range : engine.shard_map().needed) {
      const Tensor in_f32 = Tensor::empty(range.values.shape(), DType::f32);
      copy(in_f32, range.values);
      const std::vector<float> more = in_f32.to_vector<float>();
      values.insert(values.end(), more.begin(), more.end());
    }
    return values;
  };
  CHECK(values_of(wide) == values_of(unbroken));
  for (int step = 0; step < 3; ++step) CHECK(resumed.step(batch).loss() == unbroken.step(batch).loss());
  CHECK(values_of(resumed) == values_of(unbroken));
  CHECK(load_model(save(resumed, folder.text(), Group())).step == 6);
}

TEST_CASE("save and load: the average of the weights, and none before the first update", "[train]") {
  const TempFolder folder;
  const nn::TransformerSpec spec{.layers = 1, .heads = 1, .width = 8, .vocab = 256, .max_seq = 8};
  nn::Gpt2 model(spec);
  Engine engine(model, Group(), {}, averaged(AdamW{.lr = 0.01f}, 0.75), {.micro_batch = 1, .seq = 8});
  CHECK_THROWS_WITH(load_model(save(engine, folder / "begin", Group()), {.weights = kAverage}),
                    ContainsSubstring("step: expected one with an update before it, for ema, found 0"));
  const Batch batch{Tensor::zeros({1, 8}, DType::i32), Tensor::zeros({1, 8}, DType::i32)};
  const auto values_of = [&](const char* kind) {
    std::vector<float> values;
    for (const StateRange& range : engine.shard_map().needed) {
      if (range.kind != kind) continue;
      const std::vector<float> more = range.values.to_vector<float>();
      values.insert(values.end(), more.begin(), more.end());
    }
    return values;
  };
  std::vector<double> sum(values_of(kMaster).size());
  double weight = 0;
  for (int step = 0; step < 5; ++step) {
    engine.step(batch).loss();
    const std::vector<float> masters = values_of(kMaster);
    weight = 0.75 * weight + 0.25;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = 0.75 * sum[i] + 0.25 * masters[i];
  }
  const std::vector<float> averages = values_of(kAverage);
  double most = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) most = lt_test::worst_of(most, std::abs(averages[i] - sum[i] / weight));
  CHECK(most < 1e-6);
  CHECK(averages != values_of(kMaster));

  const std::string step = save(engine, folder / "end", Group());
  std::vector<float> loaded;
  const LoadedModel model_of_averages = load_model(step, {.weights = kAverage});
  for (const nn::NamedParameter& entry : model_of_averages.model->all_parameters()) {
    const std::vector<float> more = entry.parameter->tensor().detach().to_vector<float>();
    loaded.insert(loaded.end(), more.begin(), more.end());
  }
  std::sort(loaded.begin(), loaded.end());
  std::vector<float> sorted = averages;
  std::sort(sorted.begin(), sorted.end());
  CHECK(loaded == sorted);
  nn::Gpt2 bare(spec);
  Engine without(bare, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8});
  without.step(batch).loss();
  CHECK_THROWS_WITH(load_model(save(without, folder / "without", Group()), {.weights = kAverage}),
                    ContainsSubstring("states: expected ema, found none"));
}

TEST_CASE("save and load: frozen bf16 weights are written as the f32 of their kind, and stay as they were", "[train]") {
  const TempFolder folder;
  const nn::TransformerSpec spec{.layers = 2, .heads = 1, .width = 24, .vocab = 256, .max_seq = 8};
  OptimizerGroups optimizer(AdamW{.lr = 0.01f});
  optimizer.frozen = {"embedding*", "blocks.0.*"};
  const Batch batch{Tensor::zeros({1, 8}, DType::i32), Tensor::zeros({1, 8}, DType::i32)};
  nn::Gpt2 first(spec), second(spec);
  const EngineOptions options{.micro_batch = 1, .seq = 8, .dtype = DType::bf16};
  Engine engine(first, Group(), {}, optimizer, options), resumed(second, Group(), {}, optimizer, options);
  const std::string begin = save(engine, folder.text(), Group());
  for (int step = 0; step < 2; ++step) engine.step(batch).loss();
  const std::string end = save(engine, folder.text(), Group());
  CHECK(checkpoint::verify(folder.text()).empty());
  for (const ParameterInfo& parameter : checkpoint::read_parameters(begin)) {
    const std::vector<float> before = checkpoint::read_tensor(begin, parameter.name);
    const bool frozen = parameter.name.starts_with("embedding") || parameter.name.starts_with("blocks.0.");
    INFO(parameter.name);
    CHECK((checkpoint::read_tensor(end, parameter.name) == before) == frozen);
    if (!frozen) continue;
    for (const float value : before) CHECK(static_cast<float>(bf16(value)) == value);
  }
  CHECK_THROWS_WITH(checkpoint::read_tensor(end, "embedding.wte.weight", "m"), ContainsSubstring("found no m of it"));
  REQUIRE(load(resumed, folder.text(), Group()).has_value());
  CHECK(resumed.step(batch).loss() == engine.step(batch).loss());
}

TEST_CASE("load: a checkpoint of another optimizer is an error that names the state, and no damage", "[train]") {
  const TempFolder folder;
  const nn::TransformerSpec spec{.layers = 1, .heads = 1, .width = 8, .vocab = 256, .max_seq = 8};
  const EngineOptions options{.micro_batch = 1, .seq = 8};
  OptimizerGroups frozen = averaged(AdamW{}, 0.5);
  frozen.frozen = {"embedding*"};
  nn::Gpt2 first(spec), second(spec), third(spec);
  Engine engine(first, Group(), {}, frozen, options);
  const Batch batch{Tensor::zeros({1, 8}, DType::i32), Tensor::zeros({1, 8}, DType::i32)};
  engine.step(batch).loss();
  const std::string step = save(engine, folder.text(), Group());
  Engine thawed(second, Group(), {}, averaged(AdamW{}, 0.5), options);
  CHECK_THROWS_WITH(load(thawed, folder.text(), Group()),
                    ContainsSubstring("expected m/embedding.wte.weight[0, 2048), found no m of it"));
  Optimizer other{.name = "other", .states = {"momentum"}, .update = [](const UpdateRange&) {}};
  Engine another(third, Group(), {}, other, options);
  CHECK_THROWS_WITH(load(another, folder.text(), Group()), ContainsSubstring("found no momentum of any parameter"));
  CHECK(checkpoint::verify(folder.text()).empty());

  // The average of a frozen parameter is itself.
  const LoadedModel loaded = load_model(step, {.weights = kAverage});
  for (const nn::NamedParameter& entry : loaded.model->all_parameters()) {
    if (!entry.name.starts_with("embedding")) continue;
    CHECK(entry.parameter->tensor().detach().to_vector<float>() == checkpoint::read_tensor(step, entry.name));
  }
  checkpoint::export_hf(step, folder / "hf", {.weights = kAverage});
  CHECK(std::filesystem::exists(folder / "hf/model.safetensors"));
}

namespace {

// A model that is no transformer: y = W x.
struct Linear : nn::Model {
  struct Layer : nn::Module {
    explicit Layer(Size width)
        : linear(add<nn::Linear>("linear", {.in = width, .out = 4, .init = nn::Init::normal(0.5f)})) {}
    nn::Linear& linear;
  };
  explicit Linear(Size width = 4, const char* name = "only") : only(add_unit<Layer>(name, width)) {}
  Tensor loss(const Batch& batch) override {
    const auto loss_of = [this](const Tensor& inputs, const Tensor& targets) {
      return nn::cross_entropy(only.linear(inputs), targets);
    };
    return run(only, loss_of, batch.inputs, batch.targets);
  }
  Layer& only;
};

Batch batch_of_4() {
  return {Tensor::from(std::vector<float>{1, 2, 3, 4}, {1, 4}), Tensor::from(std::vector<std::int32_t>{1}, {1})};
}

// Whether the model has the values of that kind, in its own dtype.
bool has_weights_of(const nn::Model& model, const std::string& step, const char* kind = kMaster) {
  for (const nn::NamedParameter& entry : model.all_parameters()) {
    const Tensor tensor = entry.parameter->tensor().detach();
    std::vector<float> expected = checkpoint::read_tensor(step, entry.name, kind);
    for (float& value : expected) {
      if (tensor.dtype() == DType::bf16) value = static_cast<float>(bf16(value));
    }
    const Tensor in_f32 = Tensor::empty(tensor.shape(), DType::f32);
    copy(in_f32, tensor);
    if (in_f32.to_vector<float>() != expected) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("load_weights: a model of any class computes what its engine did", "[train]") {
  const TempFolder folder;
  Linear trained;
  Engine engine(trained, Group(), {}, averaged(AdamW{.lr = 0.1f}, 0.5), {.micro_batch = 1});
  for (int step = 0; step < 3; ++step) engine.step(batch_of_4());
  const std::string step = save(engine, folder / "run/checkpoints", Group());
  for (const std::string& path : {step, folder / "run/checkpoints", folder / "run"}) {
    Linear model;
    CHECK(load_weights(model, path) == step);
    CHECK(has_weights_of(model, step));
    CHECK(model.loss(batch_of_4()).item() == engine.evaluate(batch_of_4())[0].loss);
  }
  Linear narrow, average;
  load_weights(narrow, step, kCpu, DType::bf16);
  CHECK(narrow.all_parameters()[0].parameter->tensor().dtype() == DType::bf16);
  CHECK(has_weights_of(narrow, step));
  load_weights(average, step, kCpu, DType::f32, kAverage);
  CHECK(has_weights_of(average, step, kAverage));
  CHECK_FALSE(has_weights_of(average, step));

  Linear wider(5), other(4, "other");
  CHECK_THROWS_WITH(load_weights(wider, step),
                    ContainsSubstring("parameter only.linear.weight: expected shape [4, 5], found [4, 4]"));
  CHECK_THROWS_WITH(load_weights(other, step),
                    ContainsSubstring("parameter other.linear.weight: expected shape [4, 4], "
                                      "found no such parameter"));
  CHECK_THROWS_AS(load_weights(average, folder / "nowhere"), DataError);
  CHECK_THROWS_WITH(load_weights(average, step, kCpu, DType::i32), "dtype: expected f32, bf16 or f16, got i32");
  CHECK_THROWS_WITH(load_weights(average, step, kCpu, DType::f32, "m2"), ContainsSubstring("expected m2, found none"));
}

TEST_CASE("load_weights: a damaged checkpoint is passed over", "[train]") {
  const TempFolder folder;
  Linear trained, model;
  Engine engine(trained, Group(), {}, AdamW{.lr = 0.1f}, {.micro_batch = 1});
  const std::string first = save(engine, folder.text(), Group());
  engine.step(batch_of_4());
  const std::string second = save(engine, folder.text(), Group());
  std::string bytes = lt_test::read_text(second + "/rank-00000.h5");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  lt_test::write_text(second + "/rank-00000.h5", bytes);
  CHECK(load_weights(model, folder.text()) == first);
  CHECK(has_weights_of(model, first));
}

TEST_CASE("load_weights: a transformer from a checkpoint and from a Hugging Face folder", "[train]") {
  const TempFolder folder;
  nn::TransformerSpec spec{.layers = 1, .heads = 1, .width = 8, .vocab = 256, .max_seq = 8};
  nn::Gpt2 trained(spec);
  Engine engine(trained, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8});
  const std::string step = save(engine, folder / "run", Group());
  checkpoint::export_hf(step, folder / "hf");
  for (const std::string& path : {step, folder / "hf"}) {
    nn::Gpt2 model(spec);
    CHECK(load_weights(model, path) == path);
    CHECK(has_weights_of(model, step));
    nn::TransformerSpec other = spec;
    other.norm_eps = 0.5f;
    nn::Gpt2 different(other);
    CHECK_THROWS_WITH(load_weights(different, path), path + ": norm_eps: expected 0.5, as the model has, found 1e-05");
  }
  Linear linear;
  CHECK_THROWS_WITH(load_weights(linear, folder / "hf"),
                    (folder / "hf") +
                        ": expected a checkpoint of a model that is no transformer, found a folder in the "
                        "Hugging Face format");
  CHECK_THROWS_WITH(load_weights(trained, folder / "hf", kCpu, DType::f32, kAverage),
                    ContainsSubstring("expected a checkpoint with an average of the weights, found a folder"));
}
