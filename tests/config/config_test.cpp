// Configuration: layers, types, ranges, and errors that name the key and the nearest valid one.
#include <set>

#include "config/config_layers.h"
#include "config/derive.h"
#include "config/nearest.h"
#include "io/utf8.h"
#include "libtrain/config/config.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "run/same_run.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using lt::Config;
using lt::load_config;
using lt::UsageError;
using lt::config::complete;
using lt_test::from_file;
using lt_test::of_command_line;
using lt_test::of_file;
using lt_test::Refusal;
using lt_test::refusal;
using lt_test::TempFolder;
using lt_test::Variable;

TEST_CASE("config: defaults", "[config]") {
  const Config config = load_config("", {});
  CHECK(lt::flatten(config) == lt::flatten(Config{}));
  CHECK(config.model.preset == "gpt-tiny");
  CHECK(config.checkpoint.resume == "auto");
}

TEST_CASE("config: command line over environment over file over default", "[config]") {
  const char* file = "[train]\nsteps = 1\naccum = 1\nseed = 1\n";
  const Variable steps("LTRAIN_TRAIN_STEPS", "2"), accum("LTRAIN_TRAIN_ACCUM", "2");
  const Config config = from_file(file, {{"train.steps", "3"}});
  CHECK(config.train.steps == 3);
  CHECK(config.train.accum == 2);
  CHECK(config.train.seed == 1);
  CHECK(config.train.micro_batch == 8);
  CHECK(load_config("", {{"train.steps", "4"}, {"train.steps", "5"}}).train.steps == 5);

  CHECK(lt::config_from_toml(file, "an earlier run").train.steps == 1);
}

TEST_CASE("config: commas separate entries, but for those in the name of a file that exists", "[config]") {
  const TempFolder folder;
  const std::string both = folder.write("a,b", ""), longer = folder.write("a,b,c", "");
  const auto files = [](const std::string& text) { return load_config("", {{"data.train", text}}).data.train; };
  using Files = std::vector<std::string>;
  CHECK(files(both) == Files{both});
  CHECK(files(longer + ",c") == Files{longer, "c"});
  CHECK(files("x,y," + both + "," + longer) == Files{"x", "y", both, longer});
  CHECK(files(folder / "b,c") == Files{folder / "b", "c"});
}

TEST_CASE("config: every type from text and from TOML", "[config]") {
  const Config text = load_config("", {{"data.train", "a.bin,b*.bin"},
                                       {"data.shuffle", "false"},
                                       {"optim.lr", "6e-4"},
                                       {"train.seed", "9223372036854775807"},
                                       {"run.name", "x y"},
                                       {"data.val", ""},
                                       {"model.tie_embeddings", "true"},
                                       {"model.family", "llama"}});
  const Config toml = from_file(R"(optim.lr = 6e-4
[data]
train = ["a.bin", 'b*.bin']
shuffle = false
[train]
seed = 9223372036854775807
[run]
name = "x y"
[model]
tie_embeddings = true
family = "llama"
)");
  CHECK(text.data.train == std::vector<std::string>{"a.bin", "b*.bin"});
  CHECK(text.data.shuffle == false);
  CHECK(text.optim.lr == 6e-4);
  CHECK(text.train.seed == 9223372036854775807ull);
  CHECK(lt::flatten(text) == lt::flatten(toml));
  CHECK(from_file("[data]\ntrain = \"one,file.bin\"").data.train == std::vector<std::string>{"one,file.bin"});
  CHECK(from_file("[optim]\nclip = 2").optim.clip == 2.0);
}

TEST_CASE("config: the text reads back to the same", "[config]") {
  Config config;
  config.data.train = {"a \"b\"\\c.bin", "tab\there.bin", "Zürich,1.bin", "line\nfeed"};
  config.optim.lr = 0.1 + 0.2;  // 0.30000000000000004
  config.optim.eps = 5e-324;
  config.optim.weight_decay = 1e22;
  config.optim.min_lr = 0;
  config.train.seed = 9223372036854775807ull;
  config.train.deterministic = lt::Determinism::on;
  config.run.name = "\x01\x7f";
  const std::string text = lt::to_toml(config);
  CHECK(lt::flatten(from_file(text)) == lt::flatten(config));
  CHECK(from_file(text).optim.eps == 5e-324);
  CHECK(lt::to_toml(from_file(text)) == text);
  CHECK(lt::to_toml(Config{}).starts_with("[model]\npreset = \"gpt-tiny\"\nfamily = \"\"\nlayers = 0\n"));
}

TEST_CASE("config: fsdp is read as zero3 in every layer, and never written", "[config]") {
  const auto name = [](const Config& config) { return lt::flatten(config).at("parallel.strategy"); };
  CHECK(name(load_config("", {{"parallel.strategy", "fsdp"}})) == "\"zero3\"");
  const Config config = from_file("[parallel]\nstrategy = \"fsdp\"\n");
  CHECK(name(config) == "\"zero3\"");
  CHECK(config.parallel.strategy == lt::Strategy::zero3);
  CHECK(lt::to_toml(config).find("fsdp") == std::string::npos);
  const Variable given("LTRAIN_PARALLEL_STRATEGY", "fsdp");
  CHECK(name(load_config("", {})) == "\"zero3\"");
  CHECK(lt::find_strategy("fsdp") == lt::Strategy::zero3);
}

TEST_CASE("config: the keys, each once, with default and help", "[config]") {
  std::set<std::string> names;
  const auto defaults = lt::flatten(Config{});
  for (const lt::ConfigKey& key : lt::config_keys()) {
    INFO(key.name);
    CHECK(names.insert(key.name).second);
    CHECK(defaults.at(key.name) == key.fallback);
    CHECK(!key.help.empty());
    if (key.name == "parallel.recompute") CHECK(key.choices == std::vector<std::string>{"none", "selective", "full"});
    if (key.name == "run.dir") CHECK(key.choices.empty());
    CHECK(key.fields.size() == (key.name == "model.lora" ? 3 : 0));
  }
  CHECK(names.size() == defaults.size());
  CHECK(names.size() == 89);
  CHECK(defaults.at("optim.lr") == "0.0003");
  CHECK(defaults.at("optim.eps") == "1e-08");
  CHECK(defaults.at("optim.min_lr") == "-1.0");
  CHECK(defaults.at("data.train") == "[]");
}

TEST_CASE("config: unknown keys name the nearest, in every layer", "[config]") {
  CHECK(of_command_line({{"optim.lrr", "1"}}) ==
        Refusal{"unknown key optim.lrr (from the command line)", "did you mean optim.lr?"});
  CHECK(of_command_line({{"train.micro-batch", "1"}}).hint == "did you mean train.micro_batch?");
  CHECK(of_command_line({{"optimizer.lr", "1"}}).hint == "did you mean optim.lr?");
  CHECK(of_command_line({{"micro_batch", "1"}}).hint == "did you mean train.micro_batch?");
  CHECK(of_command_line({{"train.sede", "1"}}).hint == "did you mean train.seed?");
  CHECK(of_file("[optim]\nlr = 1e-3\nlrr = 1") ==
        Refusal{"unknown key optim.lrr (from F:3)", "did you mean optim.lr?"});
  // Even if a higher layer is correct.
  CHECK(of_file("[optim]\nlrr = 1", {{"optim.lr", "1"}}).message == "unknown key optim.lrr (from F:2)");
  CHECK(of_file("[optm]\nlr = 1") == Refusal{"unknown section [optm] (from F:1)", "did you mean [optim]?"});
  CHECK(of_file("lr = 1") == Refusal{"unknown key lr (from F:1)", "did you mean optim.lr?"});
  CHECK(of_file("[train]\n[train.optim]\nlr = 1").message == "unknown key train.optim (from F:2)");
  {
    const Variable wrong("LTRAIN_TRAIN_MICROBATCH", "4");
    CHECK(of_command_line({}) ==
          Refusal{"unknown environment variable LTRAIN_TRAIN_MICROBATCH", "did you mean LTRAIN_TRAIN_MICRO_BATCH?"});
  }
  const Variable reserved("LTRAIN_FAULT", "step:0:1:kill"), secret("LTRAIN_TOKEN", "00112233445566778899aabbccddeeff");
  CHECK(of_command_line({}).message == "no error was thrown");
}

TEST_CASE("config: wrong types and values, with where they came from", "[config]") {
  {
    const Variable wrong("LTRAIN_TRAIN_MICRO_BATCH", "abc");
    const std::string message =
        "train.micro_batch: expected an integer of at least 1, got \"abc\" (from the environment variable "
        "LTRAIN_TRAIN_MICRO_BATCH)";
    CHECK(of_command_line({}).message == message);
    CHECK(of_command_line({{"train.micro_batch", "4"}}).message == message);  // even if a higher layer overrides it
  }
  const auto cl = [](const char* key, const char* value) {
    std::string message = of_command_line({{key, value}}).message;
    const std::string tail = " (from the command line)";
    return message.ends_with(tail) ? message.substr(0, message.size() - tail.size()) : message;
  };
  CHECK(cl("train.micro_batch", "0") == "train.micro_batch: expected an integer of at least 1, got \"0\"");
  CHECK(cl("train.micro_batch", "8.0") == "train.micro_batch: expected an integer of at least 1, got \"8.0\"");
  CHECK(cl("train.micro_batch", "8 ") == "train.micro_batch: expected an integer of at least 1, got \"8 \"");
  CHECK(cl("train.micro_batch", "") == "train.micro_batch: expected an integer of at least 1, got \"\"");
  CHECK(cl("train.micro_batch", "3000000000") ==
        "train.micro_batch: expected an integer from 1 to 2147483647, got \"3000000000\"");
  CHECK(cl("train.seed", "-1") == "train.seed: expected an integer from 0 to 9223372036854775807, got \"-1\"");
  CHECK(cl("model.dropout", "1") == "model.dropout: expected a number in [0, 1), got \"1\"");
  CHECK(cl("optim.beta2", "-0.1") == "optim.beta2: expected a number in [0, 1), got \"-0.1\"");
  CHECK(cl("optim.lr", "nan") == "optim.lr: expected a number of at least 0, got \"nan\"");
  CHECK(cl("optim.clip", "inf") == "optim.clip: expected a number of at least 0, got \"inf\"");
  CHECK(cl("optim.eps", "0") == "optim.eps: expected a number above 0, got \"0\"");
  CHECK(cl("optim.min_lr", "1e-3x") == "optim.min_lr: expected a number, got \"1e-3x\"");
  CHECK(cl("data.shuffle", "yes") == "data.shuffle: expected true or false, got \"yes\"");
  CHECK(cl("data.train", "a,,b") == "data.train: expected text or a list of texts, got \"a,,b\"");
  CHECK(cl("parallel.strategy", "zero4") ==
        "parallel.strategy: expected one of ddp, zero1, zero2, zero3, fsdp, got \"zero4\"");
  CHECK(cl("parallel.recompute", "") == "parallel.recompute: expected one of none, selective, full, got \"\"");
  CHECK(cl("parallel.reduce_dtype", "fp32") == "parallel.reduce_dtype: expected one of f32, bf16, got \"fp32\"");
  CHECK(cl("model.preset", "gpt3").starts_with("model.preset: expected one of gpt2-124m, "));
  CHECK(cl("model.family", "") == "no error was thrown");
  CHECK(cl("run.dir", "") == "run.dir: expected text that is not empty, got \"\"");
  CHECK(cl("run.name", "\xff") == "run.name: expected text in UTF-8, got \"\xff\"");
  CHECK(cl("data.train", "a,\xff") == "data.train: expected text in UTF-8, got \"a,\xff\"");
  CHECK(cl("checkpoint.keep", "1") == "checkpoint.keep: expected an integer of at least 2, got \"1\"");

  CHECK(of_file("[train]\nsteps = \"5\"").message ==
        "train.steps: expected an integer of at least 0, got \"5\" (from F:2)");
  CHECK(of_file("[train]\nsteps = 5.0").message ==
        "train.steps: expected an integer of at least 0, got 5.0 (from F:2)");
  CHECK(of_file("[train]\n\nsteps = true").message ==
        "train.steps: expected an integer of at least 0, got true (from F:3)");
  CHECK(of_file("[train]\nsteps = -1").message == "train.steps: expected an integer of at least 0, got -1 (from F:2)");
  CHECK(of_file("[train]\nsteps = 2001-01-01").message ==
        "train.steps: expected an integer of at least 0, got a date or time (from F:2)");
  CHECK(of_file("[train]\ndeterministic = 1").message ==
        "train.deterministic: expected one of false, true, elastic, got 1 (from F:2)");
  CHECK(of_file("[optim]\nlr = \"1e-3\"").message ==
        "optim.lr: expected a number of at least 0, got \"1e-3\" (from F:2)");
  CHECK(of_file("[optim]\nlr = inf").message == "optim.lr: expected a number of at least 0, got inf (from F:2)");
  CHECK(of_file("[optim]\nschedule = true").message ==
        "optim.schedule: expected one of cosine, linear, wsd, constant, got true (from F:2)");
  CHECK(of_file("[data]\ntrain = [\"a\", 1]").message ==
        "data.train: expected text or a list of texts, got a list with an element that is not a string (from F:2)");
  CHECK(of_file("[run]\ndir = [\"a\"]").message == "run.dir: expected text, got [\"a\"] (from F:2)");
}

TEST_CASE("config: data.epochs stands in place of train.steps", "[config]") {
  const auto refused = [](const Config& config) {
    return refusal([&] { complete(config, 1, lt::DeviceType::cpu); }).message;
  };
  CHECK(refused(load_config("", {{"data.epochs", "1.5"}, {"train.steps", "1000"}})) ==
        "train.steps: expected none with data.epochs=1.5, which it follows from, got 1000 (from the command line)");
  CHECK(refused(from_file("[data]\nepochs = 2\n[train]\nsteps = 4\n"))
            .starts_with("train.steps: expected none with data.epochs=2, which it follows from, got 4 (from /"));
  CHECK(refused(load_config("", {{"data.epochs", "0"}, {"train.steps", "5"}})) == "no error was thrown");
  // The text has the steps as a comment, so that it reads back.
  Config config = load_config("", {{"data.epochs", "2"}, {"data.train", "a.bin"}});
  config.train.steps = 77;
  const std::string text = lt::to_toml(config);
  CHECK(text.find("\n# steps = 77\n") != std::string::npos);
  CHECK(from_file(text).data.epochs == 2);
  CHECK(refused(from_file(text)) == "no error was thrown");
}

TEST_CASE("config: files that are no TOML, or not there", "[config]") {
  CHECK(of_file("[train]\nsteps = \n").message.starts_with("F:2: "));
  CHECK(of_file("[train]\nsteps = 1\nsteps = 2\n").message.starts_with("F:3: "));
  CHECK(of_file("[train\n").message.starts_with("F:1: "));
  // Letters in place of white space: undefined behaviour in toml++ up to 3.4, which the sanitizers see.
  CHECK(of_file("[train]\nsteps = 3\u023d\n").message.starts_with("F:2: "));
  CHECK(of_file("\u00e9 = 1\n").message.starts_with("F:1: "));
  CHECK(of_file("# \u023d\n[run]\nname = \"\u023d\\\"\u023d\"\ndir = '\u023d\\'\n\u00e9 = 1\n")
            .message.starts_with("F:5: "));
  CHECK(of_file("[optim]\nlr = 3e-4'''\u023d\n").message.starts_with("F:2: "));
  CHECK(of_file("[run]\nname = \"\u023d\" \u3001\n").message.starts_with("F:2: "));
  CHECK(of_file("#a\ntrain =0['\u0671\u0495").message.starts_with("F:2: "));
  CHECK(from_file("[run]\ndir = \"\"\"a\\\n \u023d\"\"\"\n").run.dir == "a\u023d");
  CHECK(from_file("\ufeff# \u023d\n[run]\nname = \"\"\"a\n\u023d\"\"\"\"\" # \"\u023d\ndir = '''\u023d'''\n").run.dir ==
        "\u023d");
  CHECK(of_file("[ = 1\n").message.starts_with("F:1: "));  // an assertion of toml++ in builds that have them
  CHECK(refusal([] { load_config("/nowhere/run.toml", {}); }).message ==
        "/nowhere/run.toml: expected a readable file, found: No such file or directory");
  const TempFolder folder;
  CHECK(refusal([&] { load_config(folder / "", {}); }).message ==
        folder / ": expected a readable file, found: a folder");
}

TEST_CASE("edit distance: by hand", "[config]") {
  CHECK(lt::config::edit_distance("", "abc") == 3);
  CHECK(lt::config::edit_distance("abc", "abc") == 0);
  CHECK(lt::config::edit_distance("kitten", "sitting") == 3);
  CHECK(lt::config::edit_distance("ab", "ba") == 1);
  CHECK(lt::config::edit_distance("ca", "abc") == 3);  // of optimal string alignment, which edits no substring twice
}

TEST_CASE("is_utf8: the well-formed ones only", "[config]") {
  for (const char* good : {"", "a", "é", "€", "\xF0\x9F\x98\x80", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"})
    CHECK(lt::io::is_utf8(good));
  for (const char* bad : {"\x80", "\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                          "\xF4\x90\x80\x80", "\xE2\x82"}) {
    CHECK_FALSE(lt::io::is_utf8(bad));
  }
}

TEST_CASE("config: what is not set of a model is the preset's or follows from what is", "[config]") {
  using Given = std::vector<std::pair<std::string, std::string>>;
  const auto resolved = [](const Given& given) { return complete(load_config("", given), 1, lt::DeviceType::cpu); };
  const auto model_of = [&](const Given& given) { return lt::config::model_spec(resolved(given)); };
  const Given chosen = {{"model.preset", "llama-tiny"}, {"model.family", "qwen3"}, {"model.width", "64"}};
  const lt::nn::TransformerSpec qwen = model_of(chosen);
  CHECK(qwen.qk_norm == true);
  CHECK(qwen.rope_base == 1e6);
  CHECK(qwen.head_dim == 16);
  CHECK(qwen.ffn == 192);
  // Derived values stay open in the file, and follow another width or family.
  const std::string text = lt::to_toml(resolved(chosen));
  CHECK(text.find("head_dim = 0\n") != std::string::npos);
  CHECK(text.find("norm_eps = 0.0\n") != std::string::npos);
  CHECK(text.find("qk_norm = \"auto\"\n") != std::string::npos);
  CHECK(lt::to_toml(complete(lt::config_from_toml(text, "again"), 1, lt::DeviceType::cpu)) == text);
  Config wider = lt::config_from_toml(text, "again");
  wider.model.width = 128;
  CHECK(lt::config::model_spec(complete(wider, 1, lt::DeviceType::cpu)).head_dim == 32);
  // No scaling can be asked for where the preset has one. A file has every key, so an empty one says nothing there.
  const lt::nn::TransformerSpec scaled = model_of({{"model.preset", "llama-3.2-1b"}});
  CHECK(scaled.rope_scaling == "llama3:32,1,4,8192");
  CHECK(model_of({{"model.preset", "llama-3.2-1b"}, {"model.rope_scaling", ""}}).rope_scaling.empty());
  const std::string cleared = lt::to_toml(resolved({{"model.preset", "llama-3.2-1b"}, {"model.rope_scaling", ""}}));
  CHECK(cleared.find("\nrope_scaling = \"none\"\n") != std::string::npos);
  const Config without = lt::config_from_toml(cleared, "again");
  CHECK(lt::config::model_spec(complete(without, 1, lt::DeviceType::cpu)).rope_scaling.empty());
  const std::string printed = lt::to_toml(load_config("", {{"model.preset", "llama-3.2-1b"}}));
  const Config again = lt::config_from_toml(printed, "again");
  CHECK(lt::config::model_spec(complete(again, 1, lt::DeviceType::cpu)).rope_scaling == scaled.rope_scaling);
  // A given value that is the family's default stays where the preset has another.
  CHECK(model_of({{"model.preset", "qwen3-0.6b"}, {"model.head_dim", "64"}}).head_dim == 64);
  CHECK(model_of({{"model.preset", "qwen3-0.6b"}}).head_dim == 128);
  const Given given_all = {{"model.head_dim", "10"}, {"model.qk_norm", "true"}, {"model.norm_eps", "1e-3"}};
  const std::string all = lt::to_toml(resolved(given_all));
  CHECK(all.find("head_dim = 10\n") != std::string::npos);
  CHECK(all.find("qk_norm = \"true\"\n") != std::string::npos);
  CHECK(all.find("norm_eps = 0.001\n") != std::string::npos);
  // A run from before these keys is the same run.
  std::string earlier;
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    const std::string line = text.substr(begin, text.find('\n', begin) + 1 - begin);
    bool is_new = false;
    for (const char* key : {"head_dim", "norm_eps", "rope_base", "rope_scaling", "qk_norm", "qkv_bias", "window"}) {
      is_new = is_new || line.starts_with(std::string(key) + " = ");
    }
    if (!is_new) earlier += line;
  }
  CHECK(earlier.size() < text.size());
  CHECK_NOTHROW(lt::run::require_same_run(resolved(chosen), earlier, "config.toml"));
  CHECK(refusal([&] {
          lt::run::require_same_run(resolved(given_all), earlier, "config.toml");
        }).message.find("model.head_dim: 0 there, 10 now") != std::string::npos);

  const auto refused = [&](const Given& given) { return refusal([&] { resolved(given); }).message; };
  CHECK(refused({{"model.rope_base", "10000"}}) ==
        "model.rope_base: expected none for gpt2, which has learned positions, got 10000 (from the command line)");
  CHECK(refused({{"model.rope_scaling", "llama3"}}) ==
        "model.rope_scaling: expected linear:FACTOR, llama3:FACTOR,LOW,HIGH,ORIGINAL or none, got \"llama3\" (from "
        "the "
        "command line)");
  CHECK(refused({{"model.qk_norm", "yes"}}) ==
        "model.qk_norm: expected one of auto, true, false, got \"yes\" (from the command line)");
  CHECK(refused({{"model.family", "mistral"}, {"model.window", "1000000000"}}) ==
        "model.window: expected at most 268435456, got 1000000000 (from the command line)");
  CHECK(refused({{"model.norm_eps", "1"}}) ==
        "model.norm_eps: expected a number in [0, 1), got \"1\" (from the command line)");
}

TEST_CASE("config: a file holds what was given, and what follows from it follows again", "[config]") {
  const Config start =
      complete(load_config("", {{"run.dir", "a"}, {"train.global_batch", "32"}}), 2, lt::DeviceType::cpu);
  const std::string text = lt::to_toml(start);
  for (const char* line :
       {"layers = 0  # = 4\n", "seq = 0  # = 256\n", "accum = 1  # = 2\n", "device = \"auto\"  # = \"cpu\"\n",
        "cuda_graph = \"auto\"  # = \"false\"\n", "min_lr = -1.0  # = ", "dir = \"\"  # = \"a/checkpoints\"\n"}) {
    INFO(line);
    CHECK(text.find(line) != std::string::npos);
  }
  const auto read = [](const std::string& file, const lt_test::Pairs& pairs) {
    return complete(from_file(file, pairs), 2, lt::DeviceType::cpu);
  };
  CHECK(lt::to_toml(read(text, {})) == text);
  const Config moved = read(text, {{"run.dir", "b"}, {"optim.lr", "0.01"}, {"model.preset", "llama-tiny"}});
  CHECK(moved.checkpoint.dir == "b/checkpoints");
  CHECK(moved.optim.min_lr == 0.001);
  CHECK(moved.model.family == "llama");
  CHECK(moved.model.ffn == 352);
  // What was given stays.
  const Config given = complete(
      load_config("", {{"run.dir", "a"}, {"checkpoint.dir", "c"}, {"optim.min_lr", "1e-6"}, {"model.layers", "2"}}), 1,
      lt::DeviceType::cpu);
  const Config again = read(lt::to_toml(given), {{"run.dir", "b"}, {"optim.lr", "0.01"}});
  CHECK(again.checkpoint.dir == "c");
  CHECK(again.optim.min_lr == 1e-6);
  CHECK(again.model.layers == 2);
}

TEST_CASE("config: an elastic run has a power of two of ranks that share its micro-batches", "[config]") {
  const auto on = [](int ranks, lt_test::Pairs keys) {
    keys.insert(keys.end(), {{"train.deterministic", "elastic"}, {"train.micro_batch", "2"}});
    return complete(load_config("", keys), ranks, lt::DeviceType::cpu);
  };
  const auto refused = [&](int ranks, const lt_test::Pairs& keys) { return refusal([&] { on(ranks, keys); }); };
  const std::string expected = "train.deterministic: expected a power of two of at most 64 ranks with elastic, got ";
  const std::string origin = " (from the command line)";
  for (const int ranks : {1, 2, 4, 64}) CHECK(on(ranks, {{"train.accum", "3"}}).train.global_batch == 6 * ranks);
  CHECK(refused(3, {}) == Refusal{expected + "3 ranks" + origin, "the nearest that work are 2 and 4"});
  CHECK(refused(65, {}) == Refusal{expected + "65 ranks" + origin, "the nearest that works is 64"});
  CHECK(refused(128, {}).message == expected + "128 ranks" + origin);
  // 6 micro-batches.
  CHECK(refused(3, {{"train.global_batch", "12"}}) ==
        Refusal{expected + "3 ranks" + origin, "the nearest that works is 2"});
  CHECK(refused(4, {{"train.global_batch", "12"}}) ==
        Refusal{"train.global_batch: expected a multiple of 4 ranks x micro_batch 2, got 12" + origin,
                "the nearest that work are 8 and 16; 12 works on 2 ranks"});
  CHECK(refused(4, {{"train.global_batch", "2"}}).hint == "the nearest that works is 8; 2 works on 1 rank");
  CHECK(refused(4, {{"train.global_batch", "9"}}).hint == "the nearest that work are 8 and 16");
  // The file of a run holds its global batch, and accum follows from it at another rank count.
  const Config four = on(4, {{"train.accum", "2"}});
  const std::string text = lt::to_toml(four);
  CHECK(text.find("\naccum = 2\nglobal_batch = 16\n") != std::string::npos);
  CHECK(complete(from_file(text), 1, lt::DeviceType::cpu).train.accum == 8);
  CHECK(on(2, {}).train.accum == 1);
  CHECK(complete(load_config("", {}), 3, lt::DeviceType::cpu).train.global_batch == 0);
}

TEST_CASE("config: the keys that change the bits of an elastic run", "[config]") {
  const auto elastic = [](lt_test::Pairs keys) {
    keys.insert(keys.end(), {{"train.deterministic", "elastic"}, {"train.global_batch", "8"}});
    return complete(load_config("", keys), 1, lt::DeviceType::cpu);
  };
  Config earlier = lt::config_from_toml(lt::to_toml(elastic({})), "earlier");
  earlier = complete(earlier, 1, lt::DeviceType::cpu);
  using Lines = std::vector<std::string>;
  const auto changes = [&](const lt_test::Pairs& keys) { return lt::run::bit_changes(earlier, elastic(keys)); };
  for (const auto& [key, value] : lt_test::Pairs{{"parallel.strategy", "zero3"},
                                                 {"parallel.recompute", "full"},
                                                 {"train.steps", "7"},
                                                 {"train.eval_every", "7"},
                                                 {"checkpoint.every", "7"},
                                                 {"data.val", "v.bin"},
                                                 {"data.train", "a.bin"}}) {
    INFO(key);
    CHECK(changes({{key, value}}).empty());
  }
  CHECK(changes({{"train.micro_batch", "4"}}) == Lines{"train.micro_batch: 8 before, 4 now"});
  CHECK(changes({{"parallel.reduce_dtype", "bf16"}, {"optim.beta1", "0.5"}}) ==
        Lines{"optim.beta1: 0.9 before, 0.5 now", "parallel.reduce_dtype: \"f32\" before, \"bf16\" now"});
  for (const auto& [key, value] : lt_test::Pairs{{"train.global_batch", "16"},
                                                 {"train.dtype", "bf16"},
                                                 {"train.seed", "1"},
                                                 {"model.dropout", "0.5"},
                                                 {"data.documents", "mask"},
                                                 {"optim.ema", "0.5"}}) {
    INFO(key);
    const Config now =
        complete(load_config("", {{"train.deterministic", "elastic"}, {"train.global_batch", "8"}, {key, value}}), 1,
                 lt::DeviceType::cpu);
    CHECK(lt::run::bit_changes(earlier, now).size() == 1);
  }
  CHECK(
      lt::run::bit_changes(earlier, complete(load_config("", {{"train.global_batch", "8"}}), 1, lt::DeviceType::cpu)) ==
      Lines{"train.deterministic: \"elastic\" before, \"false\" now"});
}

TEST_CASE("config: the config.toml of a run's folder means that folder", "[config]") {
  const TempFolder folder;
  const std::string file = folder.write("config.toml", "[run]\ndir = \"elsewhere\"\n");
  CHECK(load_config(file, {}).run.dir == "elsewhere");
  folder.write("run.json", "{}");
  CHECK(std::filesystem::equivalent(load_config(file, {}).run.dir, folder.path()));
  CHECK(load_config(file, {{"run.dir", "given"}}).run.dir == "given");
}
