// Every kind of damage is refused with an error that names file and field. No damage gives wrong numbers.
#include "checkpoints/fixture.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/verify.h"
#include "io/crc32c.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("damage: every single flipped bit of the manifest", "[checkpoints]") {
  const TempFolder temp;
  const fs::path folder = save_alone(temp.path(), 1, shards_of(small_model(), 0, 1));
  std::string text = read_text(folder / "manifest.json");
  parse_manifest(text);
  Size accepted = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      text[at] = static_cast<char>(text[at] ^ (1 << bit));
      try {
        parse_manifest(text);
        ++accepted;
      } catch (const DataError& e) {
        accepted += !std::string(e.what()).starts_with("manifest.json: crc32c: expected");
      }
      text[at] = static_cast<char>(text[at] ^ (1 << bit));
    }
  }
  CHECK(accepted == 0);
}

TEST_CASE("damage: every length of a truncated manifest", "[checkpoints]") {
  const TempFolder temp;
  const fs::path folder = save_alone(temp.path(), 1, shards_of(small_model(), 0, 1));
  const std::string text = read_text(folder / "manifest.json");
  Size refused = 0;
  for (std::size_t length = 0; length < text.size(); ++length) {
    try {
      parse_manifest(text.substr(0, length));
    } catch (const DataError&) {
      ++refused;
    }
  }
  CHECK(refused == static_cast<Size>(text.size()));
  CHECK_THROWS_AS(parse_manifest(text + "\n"), DataError);
}

TEST_CASE("damage: every byte of a shard file, one bit each", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  const fs::path folder = save_alone(temp.path(), 1, shards), file = folder / "rank-00000.h5";
  const Manifest manifest = read_manifest(folder);
  std::string bytes = read_text(file);
  Size unnoticed = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    unnoticed += io::crc32c(0, bytes.data(), bytes.size()) == manifest.files[0].crc;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
  }
  CHECK(unnoticed == 0);
}

TEST_CASE("damage: 1500 flipped bits of payload, each refused by verification and by the load", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  const fs::path folder = save_alone(temp.path(), 1, shards), file = folder / "rank-00000.h5";
  const Manifest manifest = read_manifest(folder);
  const std::string whole = read_text(file);
  Size silent = 0;
  for (int flip = 0; flip < 1500; ++flip) {
    const auto& datasets = manifest.files[0].datasets;
    const DatasetEntry& dataset = datasets[static_cast<std::size_t>(flip) % datasets.size()];
    const Size bit = (Size{flip} * 7919) % (dataset.bytes() * 8);
    std::string bytes = whole;
    const auto at = static_cast<std::size_t>(dataset.offset + bit / 8);
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (bit % 8)));
    write_text(file, bytes);
    const std::string expected = "rank-00000.h5: " + to_string(dataset) + "[";
    const auto problems = problems_of(folder, true);
    silent += problems.size() != 1 || !problems[0].starts_with(expected);
    try {
      load(folder.string(), shards);
      ++silent;
    } catch (const DataError& e) {
      silent += std::string(e.what()).find(expected) == std::string::npos;
    }
  }
  CHECK(silent == 0);
}

TEST_CASE("damage: flipped bits between the payloads are refused by verification and by the load", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  const fs::path folder = save_alone(temp.path(), 1, shards), file = folder / "rank-00000.h5";
  const Manifest manifest = read_manifest(folder);
  const std::string whole = read_text(file);
  const auto is_payload = [&](Size at) {
    for (const auto& dataset : manifest.files[0].datasets) {
      if (dataset.offset <= at && at < dataset.offset + dataset.bytes()) return true;
    }
    return false;
  };
  Size flips = 0, refused = 0, reported = 0;
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    if (is_payload(static_cast<Size>(at))) continue;
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    write_text(file, bytes);
    ++flips;
    const auto problems = problems_of(folder, true);
    reported += problems.size() == 1 && problems[0].starts_with("rank-00000.h5: metadata: crc32c: expected");
    try {
      load(folder.string(), shards);
    } catch (const DataError& e) {
      refused += std::string(e.what()).find("rank-00000.h5: metadata: crc32c: expected") != std::string::npos;
    }
  }
  CHECK(flips > 1000);
  CHECK(reported == flips);
  CHECK(refused == flips);
}

TEST_CASE("damage: truncated, missing and replaced files", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  const fs::path folder = save_alone(temp.path(), 1, shards), file = folder / "rank-00000.h5";
  const std::string whole = read_text(file), size = std::to_string(whole.size());
  const auto check_refused = [&](const std::string& what) {
    CHECK_THROWS_WITH(load(folder.string(), shards),
                      ContainsSubstring((folder / "rank-00000.h5").string() + ": " + what));
    const auto problems = problems_of(folder, false);
    REQUIRE(problems.size() == 1);
    CHECK_THAT(problems[0], ContainsSubstring("rank-00000.h5: " + what));
  };
  SECTION("truncated") {
    for (const std::size_t length : {std::size_t{0}, std::size_t{17}, whole.size() / 2, whole.size() - 1}) {
      write_text(file, whole.substr(0, length));
      check_refused("expected " + size + " bytes, found " + std::to_string(length));
    }
  }
  SECTION("longer") {
    write_text(file, whole + '\0');
    check_refused("expected " + size + " bytes, found " + std::to_string(whole.size() + 1));
  }
  SECTION("missing") {
    fs::remove(file);
    check_refused("cannot open: No such file or directory");
  }
  SECTION("a folder") {
    fs::remove(file);
    fs::create_directory(file);
    check_refused("is not a regular file");
  }
  SECTION("zeros of the same size") {
    write_text(file, std::string(whole.size(), '\0'));
    CHECK_THROWS_WITH(load(folder.string(), shards),
                      ContainsSubstring("rank-00000.h5: master/embedding.wte.weight[0, 55): crc32c"));
    CHECK(problems_of(folder, true).size() == shards.owned.size() + 1);
  }
  SECTION("the file of another step") {
    ShardMap other = shards_of(small_model(), 0, 1);
    for (auto& range : other.owned) copy(range.values, Tensor::zeros(range.values.shape(), DType::f32));
    fs::copy_file(save_alone(temp.path(), 2, other) / "rank-00000.h5", file, fs::copy_options::overwrite_existing);
    CHECK(problems_of(folder, false).empty());
    CHECK_THROWS_WITH(load(folder.string(), shards), ContainsSubstring("crc32c: expected"));
  }
}
