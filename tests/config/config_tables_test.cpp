// Keys whose values are tables: groups of optimizers, sources of data, adapters.
#include "config/config_layers.h"
#include "config/derive.h"
#include "config/resolve.h"
#include "libtrain/config/config.h"
#include "libtrain/config/resolved.h"
#include "test_main/catch.h"

using lt::Config;
using lt::load_config;
using lt_test::from_file;
using lt_test::of_command_line;
using lt_test::of_file;
using lt_test::refusal;
using lt_test::Variable;

TEST_CASE("config: groups of optimizers from TOML, JSON and their own text", "[config]") {
  const std::string json = R"([{"match": "blocks.*.norm*", "weight_decay": 0}, {"match": "head*", "lr_scale": 2.5}])";
  const Config given = load_config("", {{"optim.groups", json}});
  REQUIRE(given.optim.groups.size() == 2);
  CHECK(given.optim.groups[0].match == "blocks.*.norm*");
  CHECK(given.optim.groups[0].lr_scale == 1);
  CHECK(given.optim.groups[0].weight_decay == 0);
  CHECK(given.optim.groups[1].lr_scale == 2.5);
  CHECK(given.optim.groups[1].weight_decay < 0);
  const Config tables = from_file(
      "[[optim.groups]]\nmatch = \"blocks.*.norm*\"\nweight_decay = 0\n"
      "[[optim.groups]]\nmatch = \"head*\"\nlr_scale = 2.5\n");
  CHECK(lt::flatten(tables) == lt::flatten(given));
  CHECK(lt::flatten(from_file(lt::to_toml(given))) == lt::flatten(given));
  CHECK(from_file("[optim]\ngroups = []\n").optim.groups.empty());
  // A group has the optimizer of optim.name unless it sets another.
  Config muon = from_file(R"(data.train = "x"
[optim]
name = "muon"
groups = [{match = "a"}, {match = "b", optimizer = "adamw"}]
)");
  CHECK(muon.optim.groups[0].optimizer.empty());
  muon = lt::config::complete(muon, 1, lt::DeviceType::cpu);
  CHECK(muon.optim.groups[0].optimizer.empty());  // so that it follows a later optim.name, too
  CHECK(lt::flatten(muon).at("optim.groups") ==
        "[{match = \"a\", lr_scale = 1.0, optimizer = \"muon\"}, {match = \"b\", lr_scale = 1.0, optimizer = "
        "\"adamw\"}]");
  std::vector<std::string> names;
  for (const lt::OptimizerGroup& group : lt::resolve(muon, 1, lt::DeviceType::cpu).optimizers.groups) {
    names.push_back(group.match + " " + group.optimizer.name);
  }
  CHECK(names == std::vector<std::string>{"a muon", "a adamw", "b adamw", "* muon", "* adamw"});
  Config many = muon;
  many.optim.groups.assign(8, {"a", 1, -1, "muon"});
  CHECK(refusal([&] {
          lt::config::complete(many, 1, lt::DeviceType::cpu);
        }).message.find("optim.groups: expected at most 16") == 0);
  many.optim.groups = {{"a", 1, 1e39, ""}};
  CHECK(refusal([&] {
          lt::config::complete(many, 1, lt::DeviceType::cpu);
        }).message.starts_with("optim.groups: expected as weight_decay a number that f32 does not round to infinity"));
  for (const double scale : {1e39, 1e-50}) {
    many.optim.groups = {{"a", scale, -1, ""}};  // times lr it is within f32
    many.optim.min_lr = 0, many.optim.lr = scale > 1 ? 1e-6 : 1e10;
    CHECK(refusal([&] {
            lt::config::complete(many, 1, lt::DeviceType::cpu);
          }).message.starts_with("optim.groups: expected as lr_scale a number that f32 does not round to"));
  }
  many.optim.groups.clear(), many.optim.lr = 1e39;
  CHECK(refusal([&] { lt::config::complete(many, 1, lt::DeviceType::cpu); }).message ==
        "optim.lr: expected a number that f32 does not round to infinity, got 1e+39");
  for (const auto& [text, expected] :
       {std::pair<const char*, const char*>{"x", "optim.groups: expected tables, got 'x'"},
        {"[1]", "optim.groups: expected tables"},
        {"[{}]", "optim.groups[0].match: expected a pattern of parameters' names, got none"},
        {R"([{"match": 1}])", "optim.groups[0].match: expected text, got 1"},
        {R"([{"match": "a", "lr_scale": -1}])", "lr_scale: expected a number of at least 0, got -1"},
        {R"([{"match": "a", "lr_scale": "2"}])", "lr_scale: expected a number of at least 0, got \"2\""},
        {R"([{"match": "a", "optimizer": "sgd"}])", "optimizer: expected one of adamw, muon, got \"sgd\""},
        {R"([{"match": "a"}, {"rate": 1}])", "unknown field optim.groups[1].rate"}}) {
    INFO(text);
    const std::string message = of_command_line({{"optim.groups", text}}).message;
    CHECK(message.find(expected) != std::string::npos);
  }
}

TEST_CASE("config: sources of data from TOML, JSON and their own text", "[config]") {
  const std::string json = R"([{"files": "a.bin", "weight": 0.3}, {"files": ["b.bin", "c \"d\".bin"]}])";
  const Config given = load_config("", {{"data.sources", json}});
  REQUIRE(given.data.sources.size() == 2);
  CHECK(given.data.sources[0].files == std::vector<std::string>{"a.bin"});
  CHECK(given.data.sources[0].weight == 0.3);
  CHECK(given.data.sources[1].files == std::vector<std::string>{"b.bin", "c \"d\".bin"});
  CHECK(given.data.sources[1].weight == 1);
  const Config tables = from_file(
      "[[data.sources]]\nfiles = \"a.bin\"\nweight = 0.3\n"
      "[[data.sources]]\nfiles = [\"b.bin\", 'c \"d\".bin']\n");
  CHECK(lt::flatten(tables) == lt::flatten(given));
  CHECK(lt::flatten(from_file(lt::to_toml(given))) == lt::flatten(given));
  CHECK(lt::config::data_spec(given).sources.size() == 2);
  const std::vector<lt::DataSource> one =
      lt::config::data_spec(load_config("", {{"data.train", "a.bin,b.bin"}})).sources;
  REQUIRE(one.size() == 1);
  CHECK(one[0].files == std::vector<std::string>{"a.bin", "b.bin"});
  CHECK(lt::config::data_spec(Config{}).sources.empty());
  for (const auto& [text, expected] :
       {std::pair<const char*, const char*>{"[1]", "data.sources: expected tables, got '[1]'"},
        {"[{}]", "data.sources[0].files: expected text or a list of texts, got none"},
        {R"([{"files": []}])", "data.sources[0].files: expected text or a list of texts, got []"},
        {R"([{"files": ["a", ""]}])", R"(files: expected text or a list of texts, got ["a", ""])"},
        {R"([{"files": 1}])", "files: expected text or a list of texts, got 1"},
        {R"([{"files": "a", "weight": 0}])", "weight: expected a number above 0, got 0"},
        {R"([{"files": "a", "weight": -1}])", "weight: expected a number above 0, got -1"},
        {R"([{"files": "a"}, {"file": "b"}])", "unknown field data.sources[1].file"}}) {
    INFO(text);
    const std::string message = of_command_line({{"data.sources", text}}).message;
    CHECK(message.find(expected) != std::string::npos);
  }
  const Config both = load_config("", {{"data.sources", json}, {"data.train", "x.bin"}});
  CHECK(refusal([&] { lt::config::complete(both, 1, lt::DeviceType::cpu); }).message ==
        "data.train: expected none with data.sources, got x.bin (from the command line)");
}

TEST_CASE("config: sources of data in the short form of a shell", "[config]") {
  const auto sources = [](const char* text) {
    return lt::flatten(load_config("", {{"data.sources", text}})).at("data.sources");
  };
  CHECK(sources("a/*.bin:0.7,b/*.bin:0.3") ==
        R"([{files = ["a/*.bin"], weight = 0.7}, {files = ["b/*.bin"], weight = 0.3}])");
  CHECK(sources("s3:a b.bin:2") == R"([{files = ["s3:a b.bin"], weight = 2.0}])");  // the last colon counts
  CHECK(sources("a.bin:1,b.bin:1e-3") == R"([{files = ["a.bin"], weight = 1.0}, {files = ["b.bin"], weight = 0.001}])");
  CHECK(sources(" [{\"files\": \"a.bin\"}]") == R"([{files = ["a.bin"], weight = 1.0}])");
  CHECK(sources("") == "[]");
  {
    const Variable given("LTRAIN_DATA_SOURCES", "a.bin:3");
    CHECK(lt::flatten(load_config("", {})).at("data.sources") == R"([{files = ["a.bin"], weight = 3.0}])");
  }
  const Config config = load_config("", {{"data.sources", "a/*.bin:0.7,b.bin:2"}});
  CHECK(lt::flatten(from_file(lt::to_toml(config))) == lt::flatten(config));
  // A source without a colon may have lost its weight.
  for (const char* text :
       {"a.bin", "a.bin,b.bin:0.3", "a.bin:", "a.bin:x", ":1", "a.bin:1,", "a:1,,b:1", "s3:a.bin", "a:1e999"}) {
    INFO(text);
    const auto refused = of_command_line({{"data.sources", text}});
    CHECK(refused.message.starts_with("data.sources: expected FILES:WEIGHT,... with weights above 0, got '"));
    CHECK(refused.hint.starts_with("every source needs a weight; a name with a comma needs JSON: '[{"));
  }
  CHECK(of_command_line({{"data.sources", "a:1,b:0"}}).message ==
        "data.sources[1].weight: expected a number above 0, got 0 (from the command line)");
  for (const char* text : {"a:nan", "a:inf", "a:-1"}) {
    CHECK(of_command_line({{"data.sources", text}}).message.starts_with("data.sources[0].weight: expected a number"));
  }
  CHECK(from_file("data.sources = []").data.sources.empty());
  CHECK(of_file("data.sources = \"a:1\"").message == "data.sources: expected tables, got another value (from F:1)");
}

TEST_CASE("config: adapters field by field, outside of files", "[config]") {
  using Lora = lt::nn::Lora;
  const auto lora = [](const lt_test::Pairs& pairs) { return load_config("", pairs).model.lora; };
  const Config given =
      load_config("", {{"model.lora.targets", "q_proj,v_proj"}, {"model.lora.rank", "16"}, {"model.lora.alpha", "8"}});
  CHECK(given.model.lora == Lora{16, 8, {"q_proj", "v_proj"}});
  CHECK(given.origins.at("model.lora") == "from the command line");
  CHECK(lt::flatten(from_file(lt::to_toml(given))) == lt::flatten(given));
  CHECK(lora({{"model.lora.rank", "4"}, {"model.lora.rank", "2"}}) == Lora{2, 0, {}});
  CHECK(lora({{"model.lora", R"({"rank": 4, "alpha": 8})"}, {"model.lora.rank", "2"}}) == Lora{2, 8, {}});
  CHECK(lora({{"model.lora.rank", "2"}, {"model.lora", ""}}) == Lora());
  const std::string file = "[model.lora]\nrank = 4\nalpha = 8\ntargets = [\"q_proj\"]\n";
  CHECK(from_file(file, {{"model.lora.rank", "2"}}).model.lora == Lora{2, 8, {"q_proj"}});
  CHECK(from_file(file, {{"model.lora.targets", ""}}).model.lora == Lora{4, 8, {}});
  {
    const Variable rank("LTRAIN_MODEL_LORA_RANK", "3"), alpha("LTRAIN_MODEL_LORA_ALPHA", "5");
    CHECK(lora({{"model.lora.alpha", "7"}}) == Lora{3, 7, {}});
    CHECK(from_file(file).model.lora == Lora{3, 5, {"q_proj"}});
    const Variable whole("LTRAIN_MODEL_LORA", R"({"rank": 9, "targets": ["k_proj"]})");  // comes before its fields
    CHECK(lora({}) == Lora{3, 5, {"k_proj"}});
  }
  {
    const Variable wrong("LTRAIN_MODEL_LORA_RNK", "3");
    CHECK(of_command_line({}) ==
          lt_test::Refusal{"unknown field model.lora.rnk (from the environment variable LTRAIN_MODEL_LORA_RNK)",
                           "did you mean rank?"});
  }
  CHECK(of_command_line({{"model.lora.alpa", "3"}}) ==
        lt_test::Refusal{"unknown field model.lora.alpa (from the command line)", "did you mean alpha?"});
  for (const auto& [field, value, expected] :
       {std::tuple{"rank", "0", "an integer of at least 1, got 0"},
        {"rank", "x", "an integer of at least 1, got \"x\""},
        {"rank", "", "an integer of at least 1, got \"\""},
        {"alpha", "0", "a number above 0, got 0"},
        {"alpha", "1x", "a number above 0, got \"1x\""},
        {"targets", "a,,b", "text or a list of texts, got [\"a\", \"\", \"b\"]"}}) {
    const std::string key = std::string("model.lora.") + field;
    INFO(key << " = " << value);
    // Even if the rank is given, and a later value overrides this one.
    CHECK(of_command_line({{"model.lora.rank", "1"}, {key, value}, {key, "1"}}).message ==
          key + ": expected " + expected + " (from the command line)");
  }
  CHECK(of_command_line({{"model.lora.alpha", "8"}}).message ==
        "model.lora.rank: expected an integer of at least 1, got none (from the command line)");
  CHECK(of_file("[model]\n\"lora.rank\" = 4\n").message == "unknown key model.lora.rank (from F:2)");  // no table
}

TEST_CASE("config: adapters from TOML, JSON and their own text", "[config]") {
  const Config given = load_config("", {{"model.lora", R"({"rank": 4, "alpha": 8, "targets": ["q_proj", "v_proj"]})"}});
  CHECK(given.model.lora == lt::nn::Lora{4, 8, {"q_proj", "v_proj"}});
  CHECK(lt::flatten(from_file("[model.lora]\nrank = 4\nalpha = 8.0\ntargets = [\"q_proj\", \"v_proj\"]\n")) ==
        lt::flatten(given));
  CHECK(lt::flatten(from_file(lt::to_toml(given))) == lt::flatten(given));
  for (const char* none : {"", "{}"}) CHECK(load_config("", {{"model.lora", none}}).model.lora == lt::nn::Lora());
  CHECK(from_file("[model]\nlora = {rank = 1, targets = []}\n").model.lora == lt::nn::Lora{1, 0, {}});
  for (const auto& [text, expected] :
       {std::pair<const char*, const char*>{"8", "model.lora: expected a table, got '8'"},
        {"[]", "model.lora: expected a table, got '[]'"},
        {R"({"alpha": 2})", "model.lora.rank: expected an integer of at least 1, got none"},
        {R"({"rank": 1.5})", "model.lora.rank: expected an integer of at least 1, got 1.5"},
        {R"({"rank": 1, "alpha": 0})", "model.lora.alpha: expected a number above 0, got 0"},
        {R"({"rank": 1, "targets": "q"})", "model.lora.targets: expected a list of projections, got \"q\""},
        {R"({"rank": 1, "targets": [""]})", "model.lora.targets: expected text or a list of texts, got [\"\"]"},
        {R"({"rank": 1, "ranks": 2})", "unknown field model.lora.ranks"}}) {
    INFO(text);
    const std::string message = of_command_line({{"model.lora", text}}).message;
    CHECK(message.find(expected) == 0);
  }
}
