// A manifest is unchanged after it was written and read back. Every inconsistency that could mislead a reader is
// refused.
#include "checkpoints/format/manifest.h"

#include "checkpoints/fixture.h"
#include "checkpoints/format/load.h"
#include "checkpoints/format/model_json.h"
#include "io/crc32c.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using Catch::Matchers::ContainsSubstring;

namespace {

// Two files that together hold one parameter of 3 x 2 elements.
Manifest two_files() {
  Manifest manifest{lt_test::state_at(7), 2, {{"w", {3, 2}}}, {}, {kMaster, "m", "v"}};
  for (int rank = 0; rank < 2; ++rank) {
    FileEntry file{"rank-0000" + std::to_string(rank) + ".h5", 5000, 0xabcdef00u + static_cast<unsigned>(rank), 9, {}};
    for (const char* const kind : {kMaster, "m", "v"}) {
      file.datasets.push_back({"w", kind, rank * 4, rank == 0 ? 4 : 6, "/x/w", 4096, {17u}});
    }
    manifest.files.push_back(file);
  }
  return manifest;
}

std::string error_of(const Manifest& manifest) {
  try {
    parse_manifest(manifest_text(manifest));
  } catch (const DataError& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("manifest: what is written is read", "[checkpoints]") {
  const Manifest written = two_files();
  const std::string text = manifest_text(written);
  const Manifest read = parse_manifest(text);
  CHECK(manifest_text(read) == text);
  CHECK(read.state.run == lt_test::kRun);
  CHECK(read.state.parent.empty());
  CHECK(!read.state.eval_loss);
  Manifest evaluated = written;
  evaluated.state.parent = "20230501T165500Z-0f3c2a10b4d5e6f7", evaluated.state.eval_loss = 2.5;
  CHECK(parse_manifest(manifest_text(evaluated)).state.parent == evaluated.state.parent);
  CHECK(parse_manifest(manifest_text(evaluated)).state.eval_loss == 2.5);
  CHECK(text.find("threads_per_rank") == text.npos);
  Manifest elastic = written;
  elastic.state.threads_per_rank = 3;
  CHECK(parse_manifest(manifest_text(elastic)).state.threads_per_rank == 3);
  CHECK((text.find("computed_by") == text.npos && read.state.computed_by.empty()));
  Manifest of_gpus = written;
  of_gpus.state.computed_by = {{"gpu", "NVIDIA \"H200\""}, {"cublaslt", "13.1.1"}, {"algorithms", "none"}};
  CHECK(parse_manifest(manifest_text(of_gpus)).state.computed_by == of_gpus.state.computed_by);
  CHECK(read.state.base_digest.empty());
  Manifest of_adapters = written;
  of_adapters.state.base = "/models/\"llama\"", of_adapters.state.base_digest = "0123456789abcdef";
  of_adapters.state.base_beside = "../../llama";
  const RunState state = parse_manifest(manifest_text(of_adapters)).state;
  CHECK((state.base == of_adapters.state.base && state.base_digest == of_adapters.state.base_digest));
  CHECK(state.base_beside == of_adapters.state.base_beside);
  CHECK(text.find("program_state") == text.npos);
  Manifest with_state = written;
  with_state.state.program = {{"best", "0.25"}, {"bytes \n", std::string("\xff\0\x80", 3)}, {"empty", ""}};
  CHECK(parse_manifest(manifest_text(with_state)).state.program == with_state.state.program);
  CHECK(parse_state(state_text(with_state.state.program)) == with_state.state.program);
  CHECK(read.state.data_files.empty());
  Manifest of_files = written;
  of_files.state.data_files = {{0, "data/\"a\".bin", 3000, "0123456789abcdef"}, {1, "b.bin", 1 << 30, "f"}};
  const std::vector<DataFile> files = parse_manifest(manifest_text(of_files)).state.data_files;
  REQUIRE(files.size() == 2);
  CHECK((files[0].path == "data/\"a\".bin" && files[1].source == 1 && files[1].bytes == 1 << 30));
  CHECK((files[0].has_bytes_of(of_files.state.data_files[0]) && !files[0].has_bytes_of(files[1])));
  CHECK(read.state.seed == 0xfedcba9876543210ull);
  CHECK(read.state.loss_scale == 65536.0 / 3.0);
  CHECK(read.state.config == written.state.config);
  CHECK(read.state.model == written.state.model);
  CHECK(read.state.tokenizer == written.state.tokenizer);
  CHECK(read.state.tokenizer_files.empty());
  CHECK_THAT(text, !ContainsSubstring("tokenizer_files"));
  Manifest with_files = written;
  with_files.state.tokenizer_files = {{"tokenizer_config.json", "{\"a\": \"\xc3\xa9\"}\r\n"},
                                      {"additional_chat_templates/a b.jinja", ""},
                                      {"tokenizer.model", std::string("\x0a\xff\x00\x01", 4)}};
  CHECK(parse_manifest(manifest_text(with_files)).state.tokenizer_files == with_files.state.tokenizer_files);
  CHECK(read.files[1].crc == 0xabcdef01u);
  CHECK(read.files[1].crc_metadata == 9);
  CHECK(read.files[1].datasets[2].begin == 4);
  CHECK(parse_file_entry(file_entry_text(written.files[0])).datasets[0].blocks == std::vector<std::uint32_t>{17u});
}

TEST_CASE("manifest: only files of a tokenizer are read as such", "[checkpoints]") {
  for (const char* const name : {"config.json", "../tokenizer_config.json", "/etc/passwd", "tokenizer.json", "",
                                 "additional_chat_templates/../a.jinja", "additional_chat_templates/.jinja"}) {
    Manifest manifest = two_files();
    manifest.state.tokenizer_files = {{name, "text"}};
    CHECK(error_of(manifest) ==
          std::string("manifest.json: field tokenizer_files: expected the name of a tokenizer's file, found ") + name);
  }
}

TEST_CASE("manifest: its checksum is that of all bytes before the last field's line", "[checkpoints]") {
  const std::string text = manifest_text(two_files());
  const std::size_t field = text.rfind(" \"crc32c\": \"");
  CHECK(text.substr(field) == " \"crc32c\": \"" + io::crc_text(io::crc32c(0, text.data(), field)) + "\"\n}\n");
}

TEST_CASE("manifest: what contradicts itself is refused by name", "[checkpoints]") {
  CHECK(error_of(two_files()) == "none");
  Manifest broken = two_files();
  SECTION("world size") {
    broken.world_size = 3;
    CHECK_THAT(error_of(broken), ContainsSubstring("world_size: expected the number of files, 2, found 3"));
  }
  SECTION("file name") {
    broken.files[1].name = "../rank-00001.h5";
    CHECK_THAT(error_of(broken), ContainsSubstring("expected rank-00001.h5, found ../rank-00001.h5"));
  }
  SECTION("unknown parameter") {
    broken.files[0].datasets[0].parameter = "u";
    CHECK_THAT(error_of(broken), ContainsSubstring("master/u is not in the list of parameters"));
  }
  SECTION("parameter twice") {
    broken.parameters.push_back(broken.parameters[0]);
    CHECK_THAT(error_of(broken), ContainsSubstring("w occurs twice"));
  }
  SECTION("gap") {
    broken.files[0].datasets[1].end = 3;
    CHECK_THAT(error_of(broken), ContainsSubstring("m/w[3, 4) is in no file"));
  }
  SECTION("end missing") {
    broken.files[1].datasets[0].end = 5;
    CHECK_THAT(error_of(broken), ContainsSubstring("master/w[5, 6) is in no file"));
  }
  SECTION("overlap") {
    broken.files[0].datasets[2].end = 5;
    CHECK_THAT(error_of(broken), ContainsSubstring("v/w[4, 5) is in two files"));
  }
  SECTION("one kind of one parameter missing") {
    broken.files[0].datasets.pop_back();
    CHECK_THAT(error_of(broken), ContainsSubstring("v/w[0, 4) is in no file"));
  }
  SECTION("a partial kind: a parameter may have nothing of it, but no half") {
    broken.parameters.push_back({"u", {2}});
    broken.files[0].datasets.push_back({"u", kMaster, 0, 2, "/master/u", 4000, {7}});
    CHECK_THAT(error_of(broken), ContainsSubstring("m/u[0, 2) is in no file"));
    for (StateKind& kind : broken.kinds) kind.partial = kind.name != kMaster;
    CHECK(error_of(broken) == "none");
    CHECK(parse_manifest(manifest_text(broken)).kinds == broken.kinds);
    broken.files[0].datasets[1].end = 3;
    CHECK_THAT(error_of(broken), ContainsSubstring("m/w[3, 4) is in no file"));
  }
  SECTION("the kinds of averages") {
    using Kinds = std::unordered_map<std::string, std::string>;
    broken.state.step = 7, broken.state.skipped = 0;
    CHECK(weight_kinds(broken, "v") == Kinds{{"w", "v"}});
    CHECK_THROWS_WITH(weight_kinds(broken, kAverage), ContainsSubstring("states: expected ema, found none"));
    broken.kinds[2] = kAverage;
    for (auto& file : broken.files) file.datasets[2].kind = kAverage;
    CHECK(weight_kinds(broken, kAverage) == Kinds{{"w", kAverage}});
    broken.state.skipped = 7;
    CHECK_THROWS_WITH(weight_kinds(broken, kAverage), ContainsSubstring("expected one with an update before it"));
    broken.state.skipped = 0;
    for (auto& file : broken.files) file.datasets.pop_back();
    CHECK_THROWS_WITH(weight_kinds(broken, kAverage),
                      ContainsSubstring("expected ema of w, which is trained, found none"));
    for (auto& file : broken.files) file.datasets.resize(1);
    CHECK(weight_kinds(broken, kAverage) == Kinds{{"w", kMaster}});  // frozen
  }
  SECTION("no masters") {
    for (auto& file : broken.files) file.datasets.erase(file.datasets.begin());
    CHECK_THAT(error_of(broken), ContainsSubstring("master/w[0, 6) is in no file"));
  }
  SECTION("beyond the parameter") {
    broken.files[1].datasets[0].end = 7;
    CHECK_THAT(error_of(broken), ContainsSubstring("expected a range of [0, 6), found [4, 7)"));
  }
  SECTION("beyond the file") {
    broken.files[1].datasets[0].offset = 4996;
    CHECK_THAT(error_of(broken), ContainsSubstring("5000 bytes, found offset 4996 and 8 bytes"));
  }
  SECTION("number of block checksums") {
    broken.files[0].datasets[0].blocks.push_back(1);
    CHECK_THAT(error_of(broken), ContainsSubstring("expected 1 block checksums, found 2"));
  }
}

TEST_CASE("manifest: masters alone are enough", "[checkpoints]") {
  Manifest manifest = two_files();
  for (auto& file : manifest.files) file.datasets.resize(1);
  manifest.kinds = {kMaster};
  CHECK(error_of(manifest) == "none");
}

TEST_CASE("manifest: kinds are names that the optimizer gives", "[checkpoints]") {
  Manifest manifest = two_files();
  manifest.kinds = {kMaster, "momentum", "v"};
  for (auto& file : manifest.files) file.datasets[1].kind = "momentum";
  CHECK(error_of(manifest) == "none");
  CHECK(parse_manifest(manifest_text(manifest)).kinds == manifest.kinds);
  manifest.kinds.push_back("v");
  CHECK_THAT(error_of(manifest), ContainsSubstring("field states: expected each kind once, found v twice"));
  manifest.kinds = {"v", kMaster, "momentum"};
  CHECK_THAT(error_of(manifest), ContainsSubstring("field states: expected master as the first kind"));
}

TEST_CASE("manifest: text with a right checksum and wrong fields is refused by field", "[checkpoints]") {
  const auto error_with = [](const std::string& from, const std::string& to) -> std::string {
    std::string text = manifest_text(two_files());
    text.replace(text.find(from), from.size(), to);
    const std::size_t field = text.rfind(" \"crc32c\": \"");
    text = text.substr(0, field) + " \"crc32c\": \"" + io::crc_text(io::crc32c(0, text.data(), field)) + "\"\n}\n";
    try {
      parse_manifest(text);
    } catch (const DataError& e) {
      return e.what();
    }
    return "none";
  };
  CHECK(error_with("\"version\"", "\"version\"") == "none");
  CHECK_THAT(error_with("\"version\": 2", "\"version\": 3"), ContainsSubstring("field version: expected 2, found 3"));
  CHECK_THAT(error_with("libtrain checkpoint", "something"), ContainsSubstring("field format"));
  CHECK_THAT(error_with("\"step\": 7", "\"step\": \"7\""), ContainsSubstring("field step: expected an integer"));
  CHECK_THAT(error_with("\"step\": 7", "\"step\": -7"),
             ContainsSubstring("field step: expected no negative number, found -7"));
  CHECK_THAT(error_with("\"step\": 7", "\"stop\": 7"), ContainsSubstring("field step: expected a value, found none"));
  CHECK_THAT(error_with("\"kind\":\"m\"", "\"kind\":\"M/\""),
             ContainsSubstring("field kind: expected 1 to 32 of a to z"));
  CHECK_THAT(error_with("\"kind\":\"m\"", "\"kind\":\"n\""), ContainsSubstring("by the datasets, found"));
  CHECK_THAT(error_with("\"00000011\"", "\"0000001g\""),
             ContainsSubstring("crc32c_blocks: expected 8 hexadecimal digits"));
  CHECK_THAT(error_with("[3,2]", "[3000000000000000000,4]"), ContainsSubstring("field shape"));
  CHECK_THAT(error_with("\"version\": 2", "\"version\" 2"), ContainsSubstring("parse error"));
  CHECK_THAT(error_with("\"run\": \"2", "\"run\": \"../2"), ContainsSubstring("field run: expected letters, digits"));
  CHECK_THAT(error_with("\"parent\": \"", "\"parent\": \"/"), ContainsSubstring("field parent: expected letters"));
  CHECK_THAT(error_with("{\"kind\":\"v\",\"dtype\":\"f32\"}", "{\"kind\":\"v\",\"dtype\":\"f64\"}"),
             ContainsSubstring("field states: expected v of dtype f32, bf16 or f16, found f64"));
  CHECK_THAT(error_with("{\"kind\":\"v\",", "{\"kind\":\"momentum\","), ContainsSubstring("by the datasets, found"));
  CHECK_THAT(error_with(",{\"kind\":\"v\",\"dtype\":\"f32\"}", ""),
             ContainsSubstring("v/w has a kind that is missing in the list of states"));
  // Older manifests lack these two fields. Values that no run can have are refused.
  CHECK_THAT(error_with("\"skipped\": 0", "\"skipped\": 3000000000"),
             ContainsSubstring("field skipped: expected at most"));
  CHECK_THAT(error_with("\"loss_scale\": 2", "\"loss_scale\": -2"),
             ContainsSubstring("field loss_scale: expected a positive"));
}

TEST_CASE("manifest: the model's adapters are read, and nothing impossible", "[checkpoints]") {
  nn::TransformerSpec spec = nn::with_defaults(nn::preset("gpt-tiny"));
  CHECK(model_to_json(spec, 8).find("lora") == std::string::npos);
  spec.lora = {4, 2.5, {"c_attn", "mlp.c_proj"}};
  const std::string text = model_to_json(spec, 8);
  CHECK(model_from_json(text).spec.lora == spec.lora);
  const auto error_with = [&](const std::string& lora) {
    std::string changed = text;
    const std::size_t begin = changed.find("{\"rank\""), end = changed.find('}', begin) + 1;
    changed.replace(begin, end - begin, lora);
    try {
      model_from_json(changed);
    } catch (const DataError& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  CHECK(error_with(R"({"rank":1,"alpha":1,"targets":["c_fc"]})") == "none");
  CHECK(error_with("7") == "manifest.json: model.lora: expected an object, found 7");
  CHECK(error_with(R"({"rank":0,"alpha":1,"targets":[]})") ==
        "manifest.json: model.lora: expected a rank of at least 1, found object");
  CHECK(error_with(R"({"rank":4,"alpha":-1,"targets":[]})") ==
        "manifest.json: model.lora: expected an alpha above 0, got -1");
  CHECK(error_with(R"({"rank":4,"alpha":1,"targets":["q_proj"]})") ==
        "manifest.json: model.lora: expected targets among the projections of gpt2 (c_attn, c_proj, c_fc), got "
        "\"q_proj\"");
  CHECK(error_with(R"({"rank":4,"alpha":1})").starts_with("manifest.json: model: "));
}

TEST_CASE("manifest: a program's state that breaks a rule is refused, when written and when read", "[checkpoints]") {
  const auto refused = [](const State& state) -> std::string {
    try {
      require_valid(state);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "none";
  };
  const auto half = static_cast<std::size_t>(kMaxStateBytes / 2);
  CHECK(refused({{"a", std::string(half - 1, 'x')}, {"b", std::string(half - 1, 'x')}}) == "none");
  CHECK(refused({{"a", std::string(half, 'x')}, {"b", std::string(half - 1, 'x')}}) ==
        "state: expected at most 1048576 bytes of names and values, got 1048577");
  CHECK(refused({{"", "x"}}) == "state: expected names that are not empty, got an empty one");
  CHECK(refused({{"\xff", "x"}}) == "state: expected names in UTF-8, got other bytes");
  const auto unread = [](const std::string& text) -> std::string {
    try {
      parse_state(text);
    } catch (const DataError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK_THAT(unread(R"([{"name": "", "text": "x"}])"), ContainsSubstring("program_state: expected names that are not"));
  CHECK_THAT(unread(R"([{"name": "a", "text": ""}, {"name": "a", "text": ""}])"), ContainsSubstring("found a twice"));
  CHECK_THAT(unread(R"([{"name": "a", "base64": "!"}])"), ContainsSubstring("expected a in base64, found other text"));
  CHECK_THAT(unread(R"({"a": "x"})"), ContainsSubstring("expected an array, found object"));
  CHECK_THAT(unread(state_text({{"a", std::string(2 * half, 'x')}})),
             ContainsSubstring("expected at most 1048576 bytes"));
}
