// The table of a program's models: the keys that it defines, their values, and tables that contradict themselves.
#include "libtrain/config/model_table.h"

#include <cmath>
#include <memory>

#include "config/config_layers.h"
#include "config/derive.h"
#include "config/model_table.h"
#include "libtrain/config/config.h"
#include "libtrain/config/resolved.h"
#include "libtrain/plan/plan_sample.h"
#include "test_main/catch.h"

using lt::load_config;
using lt::ModelRow;
using lt::Models;
using lt::ModelTable;
using lt_test::refusal;

namespace {

struct Shape {
  lt::Size width = 8, layers_of_it = 2;
  double noise = 0.5;
  bool gated = false;
  std::string order = "first";
};

struct Nothing : lt::nn::Model {
  explicit Nothing(const Shape& given) : shape(given) {}
  lt::Tensor loss(const lt::Batch&) override { return {}; }
  const Shape shape;
};

std::unique_ptr<lt::nn::Model> make(const Shape& shape) { return std::make_unique<Nothing>(shape); }

ModelRow row(const std::string& name) {
  return lt::model_row<Shape>(name,
                              {{"width", &Shape::width, "width", 4, 64},
                               {"depth", &Shape::layers_of_it, "depth"},
                               {"noise", &Shape::noise, "noise", 0, 1},
  lt::Size default_seq() const override { return shape.layers_of_it; }
                               {"gated", &Shape::gated, "gated"},
                               {"order", &Shape::order, "order", {"first", "last"}}},
                              make);
}

Models table(ModelTable models) { return std::make_shared<const ModelTable>(std::move(models)); }

std::string message_of(const std::vector<std::pair<std::string, std::string>>& keys, const Models& models) {
  return refusal([&] { load_config("", keys, models); }).message;
}

// What is wrong with a table; empty: nothing.
std::string contradiction(const ModelTable& models) {
  try {
    lt::config::require_valid(models);
  } catch (const lt::UsageError& error) {
    CHECK(error.component() == "models");
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the fields of a row are keys with their defaults, and fill its struct") {
  const Models models = table({.rows = {row("own")}});
  const lt::Config config =
      load_config("", {{"model.width", "16"}, {"model.gated", "true"}, {"model.order", "last"}}, models);
  const auto model = lt::make_model(lt::resolve(config, 1, lt::DeviceType::cpu));
  const Shape& shape = dynamic_cast<const Nothing&>(*model).shape;
  CHECK((shape.width == 16 && shape.layers_of_it == 2 && shape.noise == 0.5 && shape.gated && shape.order == "last"));
  const lt::Config again = lt::config_from_toml(lt::to_toml(config), "again", models);
  CHECK(lt::flatten(again) == lt::flatten(config));
  CHECK(lt::flatten(config).at("model.noise") == "0.5");
  CHECK(!lt::flatten(config).contains("model.layers"));
  CHECK_FALSE(lt::config::is_transformer(config));

  ModelRow failing = row("own");
  failing.make = [](const lt::ModelValues&) { return std::unique_ptr<lt::nn::Model>(); };
  failing.batches = [](const lt::ModelValues&, const lt::BatchShape&) {
    return std::unique_ptr<lt::BatchSource>();
  };
  const lt::Resolved empty =
      lt::resolve(load_config("", {{"train.seq", "1"}}, table({.rows = {failing}})), 1, lt::DeviceType::cpu);
  CHECK(refusal([&] { lt::make_model(empty); }).message ==
        "model.family=own: expected a model of its function make, got none");
  CHECK(refusal([&] { lt::config::own_batches(empty, {}); }).message ==
        "model.family=own: expected a source of its function batches, got none");
  failing.make = [](const lt::ModelValues&) -> std::unique_ptr<lt::nn::Model> { throw std::runtime_error("no room"); };
  const lt::Config fails = load_config("", {}, table({.rows = {failing}}));
  CHECK(refusal([&] { lt::make_model(lt::resolve(fails, 1, lt::DeviceType::cpu)); }).message ==
        "model.family=own: no room");

  CHECK(message_of({{"model.width", "65"}}, models) ==
        "model.width: expected an integer from 4 to 64, got \"65\" (from the command line)");
  CHECK(message_of({{"model.depth", "-1"}}, models) ==
        "model.depth: expected an integer of at least 0, got \"-1\" (from the command line)");
  CHECK(message_of({{"model.noise", "2"}}, models) ==
        "model.noise: expected a number in [0, 1], got \"2\" (from the command line)");
  CHECK(message_of({{"model.order", "middle"}}, models) ==
        "model.order: expected one of first, last, got \"middle\" (from the command line)");
  CHECK(message_of({{"model.family", "gpt2"}}, models) ==
        "model.family: expected one of own, got \"gpt2\" (from the command line)");
}

TEST_CASE("rows stand beside each other and beside transformers") {
  const Models models =
      table({.rows = {lt::model_row<Shape>("a", {{"cells", &Shape::width, "cells"}}, make)}, .transformers = true});
  CHECK(lt::config::is_transformer(load_config("", {}, models)));
  CHECK(lt::config::is_transformer(load_config("", {{"model.family", "llama"}}, models)));
  const lt::Config own = load_config("", {{"model.family", "a"}, {"model.cells", "12"}}, models);
  CHECK_FALSE(lt::config::is_transformer(own));
  CHECK(dynamic_cast<const Nothing&>(*lt::make_model(lt::resolve(own, 1, lt::DeviceType::cpu))).shape.width == 12);
  CHECK(contradiction(*models) == "");
  CHECK(refusal([&] { lt::plan_sample(own, 1); }).message == "model.family: expected a transformer, got a");
  // Keys of the model that is not chosen are refused, and not written.
  const auto refused = [&](const std::vector<std::pair<std::string, std::string>>& keys) {
    return refusal([&] { lt::config::complete(load_config("", keys, models), 1, lt::DeviceType::cpu); }).message;
  };
  CHECK(refused({{"model.family", "a"}, {"model.layers", "2"}}) ==
        "model.layers: expected none for model.family=a, got 2 (from the command line)");
  CHECK(refused({{"model.family", "llama"}, {"model.cells", "2"}}) ==
        "model.cells: expected none for a transformer, got 2 (from the command line)");
  CHECK(!lt::flatten(own).contains("model.layers"));
  CHECK(lt::flatten(lt::config_from_toml(lt::to_toml(own), "again", models)) == lt::flatten(own));
  CHECK(contradiction({.rows = {row("a"), row("b")}}) == "");
}

TEST_CASE("a table that contradicts itself is refused by the row's name") {
  CHECK(contradiction({.rows = {row("a"), row("a")}}) == "row \"a\": name: expected one that no other family has");
  CHECK(contradiction({}) == "expected a row or transformers, found none");
  CHECK(contradiction({.rows = {row("gpt2")}}) == "row \"gpt2\": name: expected one that no other family has");
  CHECK(contradiction({.rows = {row("a")}, .transformers = true}) ==
        "row \"a\": field width: model.width is a key already");
  ModelRow other = row("b");
TEST_CASE("the length of samples is the model's of the row unless it is given, and an error where neither says it") {
  const auto seq_of = [](const std::vector<std::pair<std::string, std::string>>& keys) {
    const lt::Config config = load_config("", keys, table({.rows = {row("own")}}));
    return lt::resolve(config, 1, lt::DeviceType::cpu).config;
  };
  CHECK(seq_of({}).train.seq == 2);
  CHECK(lt::to_toml(seq_of({{"model.depth", "7"}})).find("\nseq = 0  # = 7\n") != std::string::npos);
  CHECK(seq_of({{"model.depth", "7"}, {"train.seq", "3"}}).train.seq == 3);
  const auto refused = refusal([&] { seq_of({{"model.depth", "0"}}); });
  CHECK(refused.message == "train.seq: expected the tokens of a sample, got none");
  CHECK(refused.hint == "give train.seq, or return it from the model's default_seq(): 1 if samples are not sequences");
}

  other.fields[0].fallback = lt::Size{9};
  CHECK(contradiction({.rows = {row("a"), other}}) == "row \"b\": field width: differs from that of another row");
  other.fields = {other.fields[0], other.fields[0]};
  CHECK(contradiction({.rows = {other}}) == "row \"b\": field width: given twice");
  other.fields = {{"width", lt::Size{3}, "width", 4}};
  CHECK(contradiction({.rows = {other}}) ==
        "row \"b\": model.width: expected an integer of at least 4, got 3 (its default)");
  other.fields = {{"noise", 2.0, "noise", -HUGE_VAL, 1}};
  CHECK(contradiction({.rows = {other}}) ==
        "row \"b\": model.noise: expected a number of at most 1, got 2.0 (its default)");
  other.fields[0].choices = {"a"};
  CHECK(contradiction({.rows = {other}}) == "row \"b\": field noise: choices are for texts");
  other.fields[0].name = "Width";
  CHECK(contradiction({.rows = {other}}) ==
        "row \"b\": field \"Width\": expected a name of lower-case letters, digits and _");
  other.make = nullptr, other.fields.clear();
  CHECK(contradiction({.rows = {other}}) == "row \"b\": make: expected a function, got none");
}
