// The table of a program's models: the keys that it defines, their values, and tables that contradict themselves.
#include "libtrain/config/model_table.h"

#include <cmath>
#include <memory>

#include "config/config_layers.h"
#include "config/derive.h"
#include "config/model_table.h"
#include "config/origin.h"
#include "libtrain/config/config.h"
#include "libtrain/config/resolved.h"
#include "libtrain/plan/plan_sample.h"
#include "run/same_run.h"
#include "test_main/catch.h"

using lt::load_config;
using lt::ModelRow;
using lt::Models;
using lt::ModelTable;
using lt_test::refusal;

namespace {

struct Sizes {
  lt::Size width = 1, layers_of_it = 2;
  std::string order = "first";
};
struct Shape : Sizes {
  Shape() { width = 8; }
  double noise = 0.5;
  bool gated = false;
};
struct Reader {
  std::string folder = "images";
  lt::Size threads = 2;
  bool mirrored = false;
};

struct Nothing : lt::nn::Model {
  explicit Nothing(const Shape& given) : shape(given) {}
  lt::Tensor loss(const lt::Batch&) override { return {}; }
  lt::Size default_seq() const override { return shape.layers_of_it; }
  const Shape shape;
};

std::unique_ptr<lt::nn::Model> make(const Shape& shape) { return std::make_unique<Nothing>(shape); }

ModelRow row(const std::string& name) {
  return lt::model_row<Shape>(name,
                              {{"width", &Shape::width, "width", 4, 64},
                               {"depth", &Shape::layers_of_it, "depth"},
                               {"noise", &Shape::noise, "noise", 0, 1},
                               {"gated", &Shape::gated, "gated"},
                               {"order", &Shape::order, "order", {"first", "last"}}},
                              make);
}

// The values that its function batches got.
struct Read : lt::BatchSource {
  Read(const Shape& given_shape, const Reader& given) : shape(given_shape), reader(given) {}
  lt::Batch next() override { return {}; }
  void seek(lt::Size) override {}
  lt::Size tokens() const override { return 0; }
  const Shape shape;
  const Reader reader;
};

ModelRow row_with_batches(const std::string& name) {
  return lt::model_row<Shape, Reader>(name, {{"width", &Shape::width, "width", 4, 64}}, make,
                                      {{"folder", &Reader::folder, "folder"},
                                       {"width", &Reader::threads, "threads", 1, 8},
                                       {"mirrored", &Reader::mirrored, "mirrored"}},
                                      [](const Shape& shape, const Reader& reader, const lt::BatchShape&) {
                                        return std::make_unique<Read>(shape, reader);
                                      });
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
  failing.batches = [](const lt::ModelValues&, const lt::ModelValues&, const lt::BatchShape&) {
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

TEST_CASE("the length of samples is the model's of the row unless it is given, and an error where neither says it") {
  const auto seq_of = [](const std::vector<std::pair<std::string, std::string>>& keys) {
    const lt::Config config = load_config("", keys, table({.rows = {row("own")}}));
    return lt::resolve(config, 1, lt::DeviceType::cpu).config;
  };
  CHECK(seq_of({}).train.seq == 2);
  CHECK(lt::to_toml(seq_of({{"model.depth", "7"}})).find("\nseq = 7\n") != std::string::npos);
  CHECK(seq_of({{"model.depth", "7"}, {"train.seq", "3"}}).train.seq == 3);
  const auto refused = refusal([&] { seq_of({{"model.depth", "0"}}); });
  CHECK(refused.message == "train.seq: expected the tokens of a sample, got none");
  CHECK(refused.hint == "give train.seq, or return it from the model's default_seq(): 1 if samples are not sequences");
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

TEST_CASE("fields of a row's batches are keys of a section of their own, which says nothing of the model") {
  const Models models = table({.rows = {row_with_batches("own"), row("other")}});
  const lt_test::Pairs given = {
      {"batches.folder", ""}, {"batches.width", "3"}, {"batches.mirrored", "true"}, {"model.width", "9"}};
  const lt::Config config = load_config("", given, models);
  const lt::Resolved resolved = lt::resolve(config, 1, lt::DeviceType::cpu);
  const auto batches = lt::config::own_batches(resolved, {});
  const Read& read = dynamic_cast<const Read&>(*batches);
  CHECK((read.reader.folder.empty() && read.reader.threads == 3 && read.reader.mirrored && read.shape.width == 9));

  const std::string text = lt::to_toml(config);
  CHECK(text.find("[batches]\nfolder = \"\"\nwidth = 3\nmirrored = true\n\n[parallel]\n") != std::string::npos);
  CHECK(lt::to_toml(lt::config_from_toml(text, "again", models)) == text);
  const std::string described = lt::config::model_description(*lt::make_model(resolved), resolved);
  CHECK(described == "{\"family\":\"own\",\"width\":9}");
  lt::run::require_same_run(resolved.config, lt::to_toml(load_config("", {{"model.width", "9"}}, models)), "there",
                            false);
  const std::string other_model = lt::to_toml(load_config("", {}, models));
  CHECK(refusal([&] { lt::run::require_same_run(resolved.config, other_model, "there", false); }).message ==
        "run.dir runs/default: there has another configuration: model.width: 8 there, 9 now");
  CHECK(lt::run::config_hash(resolved.config) ==
        lt::run::config_hash(
            lt::resolve(load_config("", {{"model.width", "9"}}, models), 1, lt::DeviceType::cpu).config));

  {
    const lt_test::Variable threads("LTRAIN_BATCHES_WIDTH", "5");
    CHECK(std::get<lt::Size>(load_config("", {}, models).batches.at("width")) == 5);
  }
  CHECK(message_of({{"batches.width", "9"}}, models) ==
        "batches.width: expected an integer from 1 to 8, got \"9\" (from the command line)");
  CHECK(refusal([&] {
          load_config("", {{"batches.folders", "a"}}, models);
        }) == lt_test::Refusal{"unknown key batches.folders (from the command line)", "did you mean batches.folder?"});
  const lt::Config other = load_config("", {{"model.family", "other"}, {"batches.width", "3"}}, models);
  CHECK(refusal([&] { lt::config::complete(other, 1, lt::DeviceType::cpu); }).message ==
        "batches.width: expected none for model.family=other, got 3 (from the command line)");
  CHECK(!lt::flatten(other).contains("batches.width"));

  ModelRow refusing = row_with_batches("own");
  refusing.batches = [](const auto&, const auto&, const auto&) -> std::unique_ptr<lt::BatchSource> {
    throw lt::UsageError("batches", "folder", "a folder of images", "none");
  };
  const lt::Config refused = load_config("", {{"batches.folder", "x"}}, table({.rows = {refusing}}));
  CHECK(refusal([&] {
          lt::config::name_keys(refused,
                                [&] { lt::config::own_batches(lt::resolve(refused, 1, lt::DeviceType::cpu), {}); });
        }).message == "batches.folder: expected a folder of images, got none (from the command line)");
}

TEST_CASE("a table that contradicts itself is refused by the row's name") {
  CHECK(contradiction({.rows = {row("a"), row("a")}}) == "row \"a\": name: expected one that no other family has");
  CHECK(contradiction({}) == "expected a row or transformers, found none");
  CHECK(contradiction({.rows = {row("gpt2")}}) == "row \"gpt2\": name: expected one that no other family has");
  CHECK(contradiction({.rows = {row("a")}, .transformers = true}) ==
        "row \"a\": field width: model.width is a key already");
  ModelRow other = row("b");
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
  other.fields.clear(), other.batch_fields = {{"width", lt::Size{3}, "width"}};
  CHECK(contradiction({.rows = {other}}) == "row \"b\": batch_fields: expected none without a function batches");
  ModelRow source = row_with_batches("c");
  source.batch_fields[1].fallback = lt::Size{9};
  CHECK(contradiction({.rows = {source}}) ==
        "row \"c\": batches.width: expected an integer from 1 to 8, got 9 (its default)");
  source.batch_fields[1].fallback = lt::Size{1};
  CHECK(contradiction({.rows = {source, row_with_batches("d")}}) ==
        "row \"d\": field width: differs from that of another row");
  CHECK(contradiction({.rows = {source}, .transformers = true}) ==
        "row \"c\": field width: model.width is a key already");
  other.batch_fields.clear();
  other.make = nullptr, other.fields.clear();
  CHECK(contradiction({.rows = {other}}) == "row \"b\": make: expected a function, got none");
}
