// Malicious files with correct checksums. Readers trust nothing beyond the bounds in the manifest, and refuse
// everything else before they parse it.
#include <sys/stat.h>

#include <functional>

#include "checkpoints/format/manifest.h"
#include "checkpoints/format/verify.h"
#include "checkpoints/repair.h"
#include "libtrain/error.h"
#include "libtrain/generate/generate.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;
using Catch::Matchers::ContainsSubstring;

namespace {

// Replaces `from` by `to` in the manifest of a small checkpoint. Returns the error of reading it, or "none".
std::string manifest_error(const std::string& from, const std::string& to) {
  const TempFolder temp;
  const fs::path folder = save_alone(temp.path(), 1, shards_of(small_model(), 0, 1));
  std::string text = read_text(folder / "manifest.json");
  text.replace(text.find(from), from.size(), to);
  write_text(folder / "manifest.json", with_repaired_checksum(text));
  const auto problems = problems_of(folder, true);
  return problems.empty() ? "none" : problems[0];
}

}  // namespace

TEST_CASE("hostile files: whatever stands between the payloads, the values are read", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  const fs::path folder = save_alone(temp.path(), 1, shards);
  const Manifest manifest = read_manifest(folder);
  const std::string whole = read_text(folder / "rank-00000.h5");
  for (const char filling : {'\0', '\xff', '\x41'}) {
    std::string bytes(whole.size(), filling);
    for (const DatasetEntry& dataset : manifest.files[0].datasets) {
      const auto at = static_cast<std::size_t>(dataset.offset), count = static_cast<std::size_t>(dataset.bytes());
      bytes.replace(at, count, whole, at, count);
    }
    write_repaired(folder, manifest, bytes);
    CHECK(problems_of(folder, true).empty());
    forget(shards);
    load(folder.string(), shards);
    CHECK(wrong_elements(shards) == 0);
  }
}

TEST_CASE("hostile files: a manifest's nesting is bounded", "[checkpoints]") {
  const std::string deep(200000, '['), objects = [] {
    std::string text;
    for (int i = 0; i < 200000; ++i) text += "{\"a\":";
    return text;
  }();
  CHECK_THAT(manifest_error("\"step\": 1", "\"step\": " + deep), ContainsSubstring("expected at most 32 levels"));
  CHECK_THAT(manifest_error("\"step\": 1", "\"step\": " + objects), ContainsSubstring("expected at most 32 levels"));
  const std::string brackets(100, '[');  // do not nest inside a string
  CHECK(manifest_error("gpt-tiny", "\\\"" + brackets) == "none");
}

TEST_CASE("hostile files: a manifest's numbers are bounded", "[checkpoints]") {
  CHECK_THAT(manifest_error("\"world_size\": 1", "\"world_size\": 1048577"), ContainsSubstring("at most 2^20"));
  CHECK_THAT(manifest_error("[11,5]", "[11,5,1,1,1,1,1]"), ContainsSubstring("field shape: expected at most 6"));
  CHECK_THAT(manifest_error("[11,5]", "[4611686018427387904,5]"), ContainsSubstring("field shape"));
}

TEST_CASE("hostile files: a manifest of more than a gigabyte is refused unread", "[checkpoints]") {
  const TempFolder temp;
  const fs::path folder = save_alone(temp.path(), 1, shards_of(small_model(), 0, 1));
  fs::resize_file(folder / "manifest.json", (std::uintmax_t{1} << 30) + 1);
  const auto problems = problems_of(folder, true);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0] == "manifest.json: expected at most 1073741824 bytes, found 1073741825");
}

TEST_CASE("hostile files: a tensor that its file cannot hold is refused before memory is taken", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of({{"w", {8}}}, 0, 1);
  const fs::path folder = save_alone(temp.path(), 1, shards);
  Manifest manifest = read_manifest(folder);
  constexpr Size kElements = Size{1} << 40;
  manifest.parameters[0].shape = {kElements};
  FileEntry& file = manifest.files[0];
  file.bytes = Size{1} << 45;
  file.datasets.resize(1);
  manifest.kinds = {kMaster};
  file.datasets[0].end = kElements;
  file.datasets[0].blocks.assign(static_cast<std::size_t>(kElements * 4 / (Size{4} << 20)), 0);
  write_text(folder / "manifest.json", manifest_text(manifest));
  CHECK_THROWS_WITH(read_tensor(folder.string(), "w"),
                    ContainsSubstring("rank-00000.h5: expected 35184372088832 bytes"));
}

TEST_CASE("hostile files: a pipe in a file's place is refused, not waited for", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  const fs::path folder = save_alone(temp.path(), 1, shards);
  for (const char* name : {"rank-00000.h5", "manifest.json"}) {
    fs::remove(folder / name);
    REQUIRE(::mkfifo((folder / name).c_str(), 0600) == 0);
    CHECK_THAT(load_error(folder, shards), ContainsSubstring(std::string(name) + ": is not a regular file"));
    CHECK(problems_of(folder, true).size() == 1);
  }
}

TEST_CASE("hostile files: a description of a model takes no memory before it fits the parameters", "[checkpoints]") {
  const auto described = [](const std::string& field, const std::string& value) {
    std::string text = R"({"family":"gpt2","layers":1,"heads":1,"kv_heads":1,"width":4,"ffn":4,"vocab":8,"max_seq":4,)"
                       R"("norm_eps":1e-05,"rope_base":500000.0,"tie_embeddings":true,"dropout":0.0,"seq":4})";
    const std::size_t at = text.find("\"" + field + "\":") + field.size() + 3;
    text.replace(at, text.find(',', at) - at, value);
    const TempFolder temp;
    RunState state = state_at(1);
    state.model = text;
    const std::string folder = save(temp.text(), shards_of(small_model(), 0, 1), state, Group());
    std::string errors;
    for (const auto& read : {std::function([&] { load_model(folder); }),
                             std::function([&] { export_hf(folder, (temp.path() / "out").string()); })}) {
      try {
        read();
      } catch (const DataError& e) {
        errors += std::string(e.what()) + "\n";
      }
    }
    return errors;
  };
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  CHECK(count(described("layers", "400000000"), "model.layers: expected an integer of 1 to 65536, found 400000000") ==
        2);
  CHECK(count(described("width", "4611686018427387904"), "model.width: expected an integer of 1 to 268435456") == 2);
  CHECK(count(described("vocab", "1e300"), "model.vocab: expected an integer") == 2);
  CHECK(count(described("norm_eps", "-1"), "model.norm_eps: expected a number of 0 to 1, found -1") == 2);
  CHECK_THAT(described("layers", "60000"),
             ContainsSubstring("model.layers: expected at most as many as parameters, 6"));
  CHECK(count(described("width", "268435456"), "embedding.wte.weight: expected shape") == 2);
}
