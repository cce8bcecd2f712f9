// Damages a small checkpoint at random, from a fixed seed. Verification, load() and read_tensor() report the damage or
// return the right values. Nothing crashes, and nothing differs silently.
#include <cstdlib>
#include <cstring>
#include <random>

#include "checkpoints/format/manifest.h"
#include "checkpoints/format/verify.h"
#include "checkpoints/repair.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;

namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(engine_() % n); }
  char byte() { return static_cast<char>(below(256)); }

 private:
  std::mt19937_64 engine_;
};

struct Files {
  std::string manifest, shard;
};

// A checkpoint whose files are restored before each case.
class Victim {
 public:
  Victim() { whole_ = {read_text(folder_ / "manifest.json"), read_text(folder_ / "rank-00000.h5")}; }

  const Files& whole() const { return whole_; }
  const fs::path& folder() const { return folder_; }
  Manifest manifest() const { return parse_manifest(whole_.manifest); }
  void write(const Files& files) const {
    write_text(folder_ / "manifest.json", files.manifest);
    write_text(folder_ / "rank-00000.h5", files.shard);
  }

  bool reports() const { return !problems_of(folder_, true).empty(); }
  // Whether a read succeeds with wrong values. Errors of unexpected types end the test.
  bool reads_wrong() const {
    bool wrong = false;
    const ShardMap shards = shards_of(small_model(), 0, 1);
    try {
      load(folder_.string(), shards);
      wrong = wrong_elements(shards) > 0;
    } catch (const DataError&) {
    }
    for (const auto& [name, shape] : small_model()) {
      try {
        const auto values = read_tensor(folder_.string(), name, "m");
        wrong = wrong || static_cast<Size>(values.size()) != shape.elements();
        for (std::size_t i = 0; i < values.size() && !wrong; ++i) {
          const float expected = value_of(name, "m", static_cast<Size>(i));
          wrong = std::memcmp(&values[i], &expected, sizeof expected) != 0;
        }
      } catch (const DataError&) {
      }
    }
    return wrong;
  }

 private:
  TempFolder temp_;
  fs::path folder_ = save_alone(temp_.path(), 1, shards_of(small_model(), 0, 1));
  Files whole_;
};

void flip(Random& random, std::string& bytes) {
  const std::size_t at = random.below(bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
}

void check_flips(int count) {
  const Victim victim;
  Random random(20240501);
  Size unreported = 0, wrong = 0;
  for (int i = 0; i < count; ++i) {
    Files files = victim.whole();
    flip(random, random.below(2) == 0 ? files.manifest : files.shard);
    victim.write(files);
    unreported += !victim.reports();
    wrong += victim.reads_wrong();
  }
  CHECK(unreported == 0);
  CHECK(wrong == 0);
}

// Sets 1 to 8 bytes of the shard file, outside the payload, to bad values for lengths, addresses and types.
void mutate_metadata(Random& random, const Victim& victim) {
  const Manifest manifest = victim.manifest();
  std::string bytes = victim.whole().shard;
  const auto is_payload = [&](std::size_t at) {
    for (const DatasetEntry& dataset : manifest.files[0].datasets) {
      const auto begin = static_cast<std::size_t>(dataset.offset);
      if (begin <= at && at < begin + static_cast<std::size_t>(dataset.bytes())) return true;
    }
    return false;
  };
  const std::size_t count = 1 + random.below(8);
  for (std::size_t first = random.below(bytes.size()), i = 0; i < count && first + i < bytes.size(); ++i) {
    const char value[] = {'\0', '\xff', '\x7f', random.byte()};
    if (!is_payload(first + i)) bytes[first + i] = value[random.below(4)];
  }
  write_repaired(victim.folder(), manifest, bytes);
}

// The positions of all numbers in a JSON text, including those inside strings.
std::vector<std::size_t> numbers_of(const std::string& text) {
  std::vector<std::size_t> found;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (std::isdigit(text[i]) != 0 && std::strchr(" [,:", text[i - 1]) != nullptr) found.push_back(i);
  }
  return found;
}

std::string mutated_manifest(Random& random, std::string text) {
  const auto line = [&](std::size_t at) {
    const std::size_t begin = text.rfind('\n', at) + 1, end = text.find('\n', at);
    return std::pair(begin, (end == text.npos ? text.size() : end + 1) - begin);
  };
  switch (random.below(6)) {
    case 0: {  // an unexpected number
      constexpr const char* kNumbers[] = {"-1",
                                          "0",
                                          "1",
                                          "2147483648",
                                          "4611686018427387904",
                                          "9223372036854775808",
                                          "1e30",
                                          "0.5",
                                          "-0",
                                          "null",
                                          "[]",
                                          "{}",
                                          "\"\"",
                                          "true",
                                          "1e999",
                                          "18446744073709551615"};
      const auto numbers = numbers_of(text);
      const std::size_t at = numbers[random.below(numbers.size())];
      std::size_t end = at;
      while (std::isdigit(text[end]) != 0 || text[end] == '.') ++end;
      return text.replace(at, end - at, kNumbers[random.below(std::size(kNumbers))]);
    }
    case 1: {  // a missing line
      const auto [begin, bytes] = line(random.below(text.size()));
      return text.erase(begin, bytes);
    }
    case 2: {  // a line repeated anywhere
      const auto [begin, bytes] = line(random.below(text.size()));
      return text.insert(line(random.below(text.size())).first, text.substr(begin, bytes));
    }
    case 3: {  // brackets
      const std::string open(1 + random.below(3000), random.below(2) == 0 ? '[' : '{');
      return text.insert(random.below(text.size()), open);
    }
    case 4: {  // other bytes
      const std::size_t at = random.below(text.size());
      for (std::size_t i = at; i < std::min(text.size(), at + 1 + random.below(6)); ++i) text[i] = random.byte();
      return text;
    }
    default: {  // a piece of the text repeated elsewhere
      const std::size_t from = random.below(text.size()), bytes = random.below(200);
      return text.insert(random.below(text.size()), text.substr(from, bytes));
    }
  }
}

void check_mutations(int count) {
  const Victim victim;
  Random random(20240502);
  Size wrong = 0;
  for (int i = 0; i < count; ++i) {
    victim.write(victim.whole());
    if (i % 2 == 0) {
      mutate_metadata(random, victim);
    } else {
      const std::string text = mutated_manifest(random, victim.whole().manifest);
      write_text(victim.folder() / "manifest.json", with_repaired_checksum(text));
    }
    victim.reports();
    wrong += victim.reads_wrong();
  }
  CHECK(wrong == 0);
}

// Runs a fifth of the cases under sanitizers, which make each case several times slower.
#if defined(__SANITIZE_ADDRESS__)
constexpr int kFlips = 600, kMutations = 400;
#else
constexpr int kFlips = 3000, kMutations = 2000;
#endif

}  // namespace

TEST_CASE("mutations: flipped bits over all files", "[checkpoints]") { check_flips(kFlips); }
TEST_CASE("mutations: of metadata and manifest, with checksums that fit", "[checkpoints]") {
  check_mutations(kMutations);
}

// To run by hand: checkpoints_test "[many]".
TEST_CASE("mutations: 100,000 flipped bits", "[.][many]") { check_flips(100000); }
TEST_CASE("mutations: 10,000 with checksums that fit", "[.][many]") { check_mutations(10000); }
