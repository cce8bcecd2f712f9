// The loader: the batch of a step is the same for every rank count, and a position is the loader's whole state.
#include <sys/resource.h>

#include <fstream>
#include <set>

#include "libtrain/data/data.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"
#include "test_main/temp_folder.h"

using lt::BatchShape;
using lt::DataError;
using lt::Size;
using lt::TokenLoader;
using lt_test::message_of;
using lt_test::TempFolder;
using Tokens = std::vector<std::int32_t>;

namespace {

constexpr Size kSeq = 8;

// Two files of 10 and 7 blocks plus a few tokens. Token i is i in the first file and 1000 + i in the second.
class Corpus {
 public:
  Corpus() {
    write("a.bin", 0, 10 * kSeq + 5);
    write("b.bin", 1000, 7 * kSeq + 1);
  }
  std::vector<std::string> files() const { return {folder_ / "a.bin", folder_ / "b.bin"}; }
  const TempFolder& folder() const { return folder_; }
  void write(const std::string& name, std::uint32_t first, Size count) const {
    std::vector<std::uint32_t> tokens;
    for (Size i = 0; i < count; ++i) tokens.push_back(first + static_cast<std::uint32_t>(i));
    lt::write_token_file(folder_ / name, tokens);
  }

 private:
  TempFolder folder_;
};

BatchShape shape_of(Size micro_batch, Size accum, int rank = 0, int ranks = 1) {
  return {.micro_batch = micro_batch, .accum = accum, .seq = kSeq, .rank = rank, .ranks = ranks};
}

Tokens values(const lt::Tensor& tensor) {
  const auto* data = tensor.data<std::int32_t>();
  return {data, data + tensor.elements()};
}

void append(Tokens& all, const Tokens& more) { all.insert(all.end(), more.begin(), more.end()); }

// The first token of each row.
Tokens rows(const lt::Batch& batch) {
  Tokens first;
  const Tokens inputs = values(batch.inputs);
  for (std::size_t i = 0; i < inputs.size(); i += kSeq) first.push_back(inputs[i]);
  return first;
}

}  // namespace

TEST_CASE("TokenLoader: blocks in file order without shuffling, targets one further", "[data]") {
  const Corpus corpus;
  TokenLoader loader(corpus.files(), shape_of(3, 1), {.shuffle = false});
  CHECK(loader.samples_per_epoch() == 17);
  const lt::Batch batch = loader.next();
  CHECK(batch.inputs.shape() == lt::Shape{3, kSeq});
  const Tokens inputs = values(batch.inputs), targets = values(batch.targets);
  for (std::int32_t i = 0; i < 24; ++i) {
    CHECK(inputs[static_cast<std::size_t>(i)] == i);
    CHECK(targets[static_cast<std::size_t>(i)] == i + 1);
  }
  CHECK(loader.position() == 3);
  Tokens rest;
  for (int step = 0; step < 5; ++step) append(rest, rows(loader.next()));
  // Blocks do not span files, and the 18th sample is the first of the second epoch.
  CHECK(rest == Tokens{24, 32, 40, 48, 56, 64, 72, 1000, 1008, 1016, 1024, 1032, 1040, 1048, 0});
}

TEST_CASE("TokenLoader: an epoch has every block once, each epoch its own order", "[data]") {
  const Corpus corpus;
  TokenLoader loader(corpus.files(), shape_of(17, 1));
  const Tokens first = rows(loader.next()), second = rows(loader.next());
  const std::set<std::int32_t> distinct(first.begin(), first.end()), again(second.begin(), second.end());
  CHECK(distinct.size() == 17);
  CHECK(distinct == again);
  CHECK(first != second);
  CHECK(rows(TokenLoader(corpus.files(), shape_of(17, 1), {.seed = 1}).next()) != first);
  CHECK(rows(TokenLoader(corpus.files(), shape_of(17, 1), {.seed = 1337}).next()) == first);
}

TEST_CASE("TokenLoader: sample i starts at token permuted(i) * seq", "[data]") {
  const Corpus corpus;
  corpus.write("c.bin", 0, 50 * kSeq + 1);
  const TokenLoader loader({corpus.folder() / "c.bin"}, shape_of(1, 1), {.seed = 7});
  Tokens sample(kSeq + 1);
  for (const Size index : {0, 1, 49, 50, 99, 100, 123}) {
    loader.read_sample(index, sample.data());
    const std::uint64_t key = lt::derive_key(7, "data.epoch." + std::to_string(index / 50));
    CHECK(sample[0] == lt::permuted(key, index % 50, 50) * kSeq);
    CHECK(sample[kSeq] == sample[0] + kSeq);
  }
}

TEST_CASE("TokenLoader: 1, 2, 3 and 4 ranks share the same global batch", "[data]") {
  const Corpus corpus;
  TokenLoader alone(corpus.files(), shape_of(36, 1));
  for (int step = 0; step < 4; ++step) {  // 36 samples a step, 17 an epoch
    const lt::Batch whole = alone.next();
    for (const int ranks : {1, 2, 3, 4}) {
      for (const Size accum : {1, 3}) {
        Tokens inputs, targets;
        for (int rank = 0; rank < ranks; ++rank) {
          TokenLoader part(corpus.files(), shape_of(36 / ranks / accum, accum, rank, ranks));
          for (int skipped = 0; skipped < step; ++skipped) part.next();
          const lt::Batch batch = part.next();
          append(inputs, values(batch.inputs)), append(targets, values(batch.targets));
        }
        INFO("step " << step << ", " << ranks << " ranks, accum " << accum);
        CHECK(inputs == values(whole.inputs));
        CHECK(targets == values(whole.targets));
      }
    }
  }
}

TEST_CASE("TokenLoader: interleaved ranks share the micro-batches of a step in turn", "[data]") {
  const Corpus corpus;
  constexpr Size kMicroBatches = 8, kRows = 3;
  TokenLoader alone(corpus.files(), shape_of(kRows, kMicroBatches));
  const std::size_t tokens_of_micro_batch = kRows * kSeq;
  for (int step = 0; step < 3; ++step) {  // 24 samples a step, 17 an epoch
    const lt::Batch whole = alone.next();
    for (const int ranks : {1, 2, 4}) {
      Tokens inputs(values(whole.inputs).size()), targets(inputs.size());
      for (int rank = 0; rank < ranks; ++rank) {
        BatchShape shape = shape_of(kRows, kMicroBatches / ranks, rank, ranks);
        shape.interleaved = true;
        TokenLoader part(corpus.files(), shape);
        part.seek(step * kMicroBatches * kRows);
        const lt::Batch batch = part.next();
        CHECK(part.position() == alone.position());
        const Tokens of_inputs = values(batch.inputs), of_targets = values(batch.targets);
        for (std::size_t k = 0; k < kMicroBatches / static_cast<std::size_t>(ranks); ++k) {
          const auto from = static_cast<std::ptrdiff_t>(k * tokens_of_micro_batch),
                     count = static_cast<std::ptrdiff_t>(tokens_of_micro_batch);
          const auto leaf = static_cast<std::ptrdiff_t>(k) * ranks + rank;
          std::copy_n(of_inputs.begin() + from, count, inputs.begin() + leaf * count);
          std::copy_n(of_targets.begin() + from, count, targets.begin() + leaf * count);
        }
      }
      INFO("step " << step << ", " << ranks << " ranks");
      CHECK(inputs == values(whole.inputs));
      CHECK(targets == values(whole.targets));
    }
  }
}

TEST_CASE("TokenLoader: seek goes on where another run stopped, whatever its batch size", "[data]") {
  const Corpus corpus;
  TokenLoader through(corpus.files(), shape_of(1, 1));
  Tokens all;
  for (int i = 0; i < 60; ++i) append(all, rows(through.next()));

  TokenLoader stopped(corpus.files(), shape_of(5, 1));
  stopped.next(), stopped.next(), stopped.next();
  CHECK(stopped.position() == 15);

  TokenLoader resumed(corpus.files(), shape_of(5, 1));
  resumed.seek(15);
  CHECK(rows(resumed.next()) == rows(stopped.next()));
  CHECK(resumed.position() == 20);

  // 15 is not a multiple of 2 ranks x 2 x 2 samples. In the next step rank 1 has samples 19 to 22.
  TokenLoader other(corpus.files(), shape_of(2, 2, 1, 2));
  other.seek(15);
  CHECK(rows(other.next()) == Tokens(all.begin() + 19, all.begin() + 23));
  CHECK(other.position() == 23);
  CHECK(rows(other.next()) == Tokens(all.begin() + 27, all.begin() + 31));
}

TEST_CASE("TokenLoader: a target that the mask leaves out is ignored, inputs stay", "[data]") {
  const Corpus corpus;
  // The multiples of 3 count in a.bin; b.bin has no mask.
  std::string mask;
  for (const std::int32_t value : {20261124, 1, static_cast<std::int32_t>(10 * kSeq + 5)}) {
    for (int byte = 0; byte < 4; ++byte) mask += static_cast<char>(value >> 8 * byte);
  }
  mask.resize(1024 + (10 * kSeq + 5 + 7) / 8, '\0');
  for (std::size_t i = 0; i < 10 * kSeq + 5; i += 3) {
    mask[1024 + i / 8] = static_cast<char>(mask[1024 + i / 8] | 1 << i % 8);
  }
  TokenLoader plain(corpus.files(), shape_of(17, 1));
  CHECK_FALSE(plain.has_ignored_targets());
  corpus.folder().write("a.mask", mask);
  TokenLoader masked(corpus.files(), shape_of(17, 1));
  CHECK(masked.has_ignored_targets());
  for (int step = 0; step < 3; ++step) {
    const lt::Batch batch = masked.next();
    CHECK(values(batch.inputs) == values(plain.next().inputs));
    const Tokens inputs = values(batch.inputs), targets = values(batch.targets);
    int wrong = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::int32_t next = inputs[i] + 1;
      wrong += targets[i] != (next >= 1000 || next % 3 == 0 ? next : lt::kIgnoredTarget);
    }
    CHECK(wrong == 0);
  }
  corpus.write("a.bin", 0, 10 * kSeq);
  CHECK(message_of<DataError>([&] { TokenLoader(corpus.files(), shape_of(1, 1)); }) ==
        corpus.folder() / "a.mask: offset 8: expected token count 80, as in the token file, found 85");
}

TEST_CASE("TokenLoader: with a token that ends documents, batches say where documents begin", "[data]") {
  const TempFolder folder;
  // Two blocks: documents end within a block, at its last token and at its first.
  lt::write_token_file(folder / "a.bin", {1, 9, 2, 3, 9, 9, 4, 9, 9, 5, 6, 7, 8, 5, 4, 3, 2});
  TokenLoader cross({folder / "a.bin"}, shape_of(2, 1), {.shuffle = false});
  CHECK_FALSE(cross.next().document_starts.defined());
  CHECK_FALSE(cross.has_ignored_targets());
  TokenLoader mask({folder / "a.bin"}, shape_of(2, 1), {.shuffle = false, .document_end = 9});
  CHECK(mask.has_ignored_targets());
  const lt::Batch batch = mask.next();
  CHECK(batch.document_starts.shape() == lt::Shape{2, kSeq});
  CHECK(values(batch.document_starts) == Tokens{0, 0, 2, 2, 2, 5, 6, 6, 0, 1, 1, 1, 1, 1, 1, 1});
  const std::int32_t no = lt::kIgnoredTarget;
  CHECK(values(batch.inputs) == values(cross.next().inputs));
  CHECK(values(batch.targets) == Tokens{9, no, 3, 9, no, no, 9, no, no, 6, 7, 8, 5, 4, 3, 2});
}

TEST_CASE("TokenLoader: patterns stand for their matches in byte order", "[data]") {
  const Corpus corpus;
  const auto rows_of = [](const std::vector<std::string>& files, Size count) {
    return rows(TokenLoader(files, shape_of(count, 1), {.shuffle = false}).next());
  };
  CHECK(rows_of({corpus.folder() / "[ab].bin"}, 17) == rows_of(corpus.files(), 17));
  CHECK(TokenLoader({corpus.folder() / "b.bin", corpus.folder() / "*.bin"}, shape_of(1, 1)).files().size() == 3);
  corpus.write("[a].bin", 500, kSeq + 1);  // an existing file takes precedence over the pattern
  CHECK(rows_of({corpus.folder() / "[a].bin"}, 1) == Tokens{500});
  CHECK(message_of<DataError>([&] { TokenLoader({corpus.folder() / "c*.bin"}, shape_of(1, 1)); }) ==
        corpus.folder() / "c*.bin: expected at least one file, the pattern matches none");
}

TEST_CASE("TokenLoader: more files than the soft limit of descriptors", "[data]") {
  const Corpus corpus;
  for (int i = 0; i < 100; ++i) corpus.write("many-" + std::to_string(i) + ".bin", 0, 2 * kSeq);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit low{64, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  CHECK(TokenLoader({corpus.folder() / "many-*.bin"}, shape_of(1, 1), {}).tokens() == 100 * 2 * kSeq);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("TokenLoader: refuses files that are too short, and no files", "[data]") {
  const Corpus corpus;
  corpus.write("short.bin", 0, kSeq);
  CHECK(message_of<DataError>([&] {
          TokenLoader({corpus.folder() / "a.bin", corpus.folder() / "short.bin"}, shape_of(1, 1));
        }) ==
        corpus.folder() / "short.bin: expected at least 9 tokens (one sequence of 8 and the token after it), found 8");
  corpus.write("enough.bin", 0, kSeq + 1);
  CHECK(TokenLoader({corpus.folder() / "enough.bin"}, shape_of(1, 1)).samples_per_epoch() == 1);
  lt::write_token_file(corpus.folder() / "none.bin", {});
  CHECK_THROWS_AS(TokenLoader({corpus.folder() / "none.bin"}, shape_of(1, 1)), DataError);
  CHECK_THROWS_AS(TokenLoader({}, shape_of(1, 1)), lt::UsageError);
  CHECK_THROWS_AS(TokenLoader(corpus.files(), shape_of(0, 1)), lt::UsageError);
  CHECK_THROWS_AS(TokenLoader(corpus.files(), shape_of(1, 1, 2, 2)), lt::UsageError);
  CHECK_THROWS_WITH(lt::count_samples({{corpus.files()}}, 0, lt::TokenFormat::automatic),
                    "seq: expected at least 1, got 0");
}

TEST_CASE("TokenLoader: each rank scans its part, all ranks together the whole", "[data]") {
  const Corpus corpus;
  // The highest token of a.bin is its last, number 84; every token of b.bin is higher.
  for (const int ranks : {1, 2, 3, 5}) {
    for (int rank = 0; rank < ranks; ++rank) {
      INFO("rank " << rank << " of " << ranks);
      const auto load = [&](Size vocab) {
        return message_of<DataError>(
            [&] { TokenLoader({corpus.folder() / "a.bin"}, shape_of(1, 1, rank, ranks), {.vocab = vocab}); });
      };
      CHECK(load(85) == "no error was thrown");
      const std::string expected = rank + 1 == ranks ? corpus.folder() /
                                                           "a.bin: offset 1192: expected a token below the "
                                                           "vocabulary 84, found 84 (token number 84)"
                                                     : "no error was thrown";
      CHECK(load(84) == expected);
    }
  }
}

TEST_CASE("TokenLoader: an id that does not fit i32 is refused without a vocabulary too", "[data]") {
  const TempFolder folder;
  std::vector<std::uint32_t> tokens(kSeq + 1, 1);
  tokens[3] = 0x80000000u;
  lt::write_token_file(folder / "a.bin", tokens);
  CHECK(message_of<DataError>([&] { TokenLoader({folder / "a.bin"}, shape_of(1, 1)); }) ==
        folder /
            "a.bin: offset 1036: expected a token below the vocabulary 2147483648, found 2147483648 (token number 3)");
}

TEST_CASE("TokenLoader: a token that lies outside the vocabulary since the file was opened ends the step", "[data]") {
  const TempFolder folder;
  const std::string path = folder / "a.bin";
  lt::write_token_file(path, std::vector<std::uint32_t>(3 * kSeq + 1, 1));
  TokenLoader loader({path}, shape_of(1, 1), {.shuffle = false, .vocab = 300});
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(1024 + 2 * (2 * kSeq + 5))
      .write("\x2c\x01", 2);
  std::vector<std::int32_t> sample(kSeq + 1);
  loader.read_sample(1, sample.data());
  const std::string expected = path +
                               ": the file changed while it was in use: sample 2, position 5: expected a token "
                               "below the vocabulary 300, found 300";
  CHECK(message_of<DataError>([&] { loader.read_sample(2, sample.data()); }) == expected);
  CHECK(loader.next().inputs.data<std::int32_t>()[0] == 1);
  loader.seek(2);
  CHECK(message_of<DataError>([&] { loader.next(); }) == expected);
}
