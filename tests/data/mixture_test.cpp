// Mixing by weight: counts follow the weights, every sample is a pure function of its index, and a single source gives
// the same samples as no mixing.
#include <cmath>

#include "data/mixture.h"
#include "libtrain/data/data.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"
#include "test_main/temp_folder.h"

using lt::Size;
using lt::TokenLoader;
using lt::UsageError;
using lt::data::Mixture;
using lt_test::message_of;
using lt_test::TempFolder;
using Tokens = std::vector<std::int32_t>;

namespace {

constexpr Size kTokens = 4;  // of a sample

// Writes `blocks` samples. Token i is first + i.
std::string write(const TempFolder& folder, const std::string& name, std::uint32_t first, Size blocks) {
  std::vector<std::uint32_t> tokens;
  for (Size i = 0; i <= blocks * kTokens; ++i) tokens.push_back(first + static_cast<std::uint32_t>(i));
  lt::write_token_file(folder / name, tokens);
  return folder / name;
}

lt::BatchShape shape(Size samples, int rank = 0, int ranks = 1) {
  return {.micro_batch = samples, .seq = kTokens, .rank = rank, .ranks = ranks};
}

// The first token of each row.
Tokens rows_of(const lt::Batch& batch) {
  Tokens first;
  for (Size row = 0; row < batch.inputs.dim(0); ++row)
    first.push_back(batch.inputs.data<std::int32_t>()[row * kTokens]);
  return first;
}

Tokens rows_of(TokenLoader loader, Size position, int steps) {
  loader.seek(position);
  Tokens all;
  for (int step = 0; step < steps; ++step) {
    const Tokens rows = rows_of(loader.next());
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace

TEST_CASE("Mixture: after any number of samples each source is within one of its share", "[data]") {
  const std::vector<std::vector<double>> cases = {
      {1},           {1, 1},          {0.7, 0.3},         {0.5, 0.3, 0.2},
      {5, 1e-6 * 5}, {1, 1, 1, 1, 1}, {0.97, 0.01, 0.02}, {3, 5, 7, 11, 13, 17}};
  for (const std::vector<double>& weights : cases) {
    const Mixture mixture(weights);
    double sum = 0, worst = 0;
    for (const double weight : weights) sum += weight;
    std::vector<Size> counts(weights.size(), 0);
    Size wrong = 0;
    for (Size n = 0; n < 3000; ++n) {
      const Mixture::SourceSample sample = mixture.at(n);
      wrong += sample.count != counts[static_cast<std::size_t>(sample.source)]++;
      wrong += mixture.sample_of(sample.source, sample.count) != n;
      for (std::size_t s = 0; s < weights.size(); ++s) {
        worst =
            std::max(worst, std::abs(weights[s] / sum * static_cast<double>(n + 1) - static_cast<double>(counts[s])));
      }
    }
    INFO(weights.size() << " sources, the first of weight " << weights[0]);
    CHECK(wrong == 0);
    CHECK(worst < 1);
  }
}

TEST_CASE("Mixture: any index costs the same, and the counts of a far one are exact", "[data]") {
  const Mixture mixture({0.333333, 0.666667});  // a period of a million samples
  const Size far = 123456789012345;
  const auto sample = mixture.at(far);
  CHECK(mixture.sample_of(sample.source, sample.count) == far);
  const double share = sample.source == 0 ? 0.333333 : 0.666667;
  CHECK(std::abs(static_cast<double>(sample.count) - share * static_cast<double>(far)) < 1.1);
}

TEST_CASE("Mixture: weights that are refused", "[data]") {
  const auto refusal = [](const std::vector<double>& weights) {
    return message_of<UsageError>([&] { Mixture{weights}; });
  };
  const std::string expected = ": expected a number above 0 with at most six decimals, got ";
  CHECK(refusal({1, 0}) == "weights[1]" + expected + "0");
  CHECK(refusal({-1}) == "weights[0]" + expected + "-1");
  CHECK(refusal({0.1234567}) == "weights[0]" + expected + "0.1234567");
  CHECK(refusal({std::nan("")}) == "weights[0]" + expected + "nan");
  CHECK(refusal({1, 1e300}) == "weights[1]" + expected + "1e+300");
  CHECK(refusal({5000000, 1}) == "weights: expected ratios of integers whose sum is at most 4194304, got more");
  CHECK(refusal({5000000, 5000000}) == "no error was thrown");
}

TEST_CASE("TokenLoader: sources have their share and epochs of their own", "[data]") {
  const TempFolder folder;
  const std::string a = write(folder, "a.bin", 0, 5), b = write(folder, "b.bin", 1000, 7);
  const std::vector<lt::DataSource> sources = {{{a}, 0.75}, {{b}, 0.25}};
  const Tokens rows = rows_of(TokenLoader::mix(sources, shape(8), {.seed = 3}), 0, 5);
  Tokens of_a, of_b;
  for (const std::int32_t row : rows) (row < 1000 ? of_a : of_b).push_back(row);
  CHECK(of_a.size() == 30);
  CHECK(of_b.size() == 10);
  // Within a source, the order is that of its epochs; the first source has the keys of files alone.
  CHECK(of_a == rows_of(TokenLoader({a}, shape(30), {.seed = 3}), 0, 1));
  for (Size i = 0; i < 10; ++i) {
    const std::uint64_t key = lt::derive_key(3, "data.source.1.epoch." + std::to_string(i / 7));
    CHECK(of_b[static_cast<std::size_t>(i)] == 1000 + lt::permuted(key, i % 7, 7) * kTokens);
  }

  const TokenLoader loader = TokenLoader::mix(sources, shape(1));
  CHECK(loader.samples_per_epoch() == 12);
  CHECK(loader.tokens() == 21 + 29);
  CHECK(loader.sources() == 2);
  // The first sample of a second epoch: the sixth of a, the eighth of b.
  const Tokens each = rows_of(TokenLoader::mix(sources, shape(1), {.seed = 3}), 0, 40);
  for (const Size source : {0, 1}) {
    const Size repeat = loader.first_repeat(source);
    const Tokens before(each.begin(), each.begin() + repeat);
    const auto is_of_source = [&](std::int32_t row) { return (row < 1000) == (source == 0); };
    CHECK(std::count_if(before.begin(), before.end(), is_of_source) == (source == 0 ? 5 : 7));
    CHECK(is_of_source(each[static_cast<std::size_t>(repeat)]));
  }
}

TEST_CASE("TokenLoader: mixed batches are the same for every rank count and position", "[data]") {
  const TempFolder folder;
  const std::vector<lt::DataSource> sources = {{{write(folder, "a.bin", 0, 5)}, 5},
                                               {{write(folder, "b.bin", 1000, 7)}, 3},
                                               {{write(folder, "c.bin", 2000, 3)}, 2}};
  const Tokens all = rows_of(TokenLoader::mix(sources, shape(60)), 0, 2);
  for (const int ranks : {1, 2, 3}) {
    for (const Size position : {0, 7, 60}) {
      Tokens part;
      for (int rank = 0; rank < ranks; ++rank) {
        const Tokens rows = rows_of(TokenLoader::mix(sources, shape(12 / ranks, rank, ranks)), position, 1);
        part.insert(part.end(), rows.begin(), rows.end());
      }
      INFO(ranks << " ranks, position " << position);
      CHECK(part == Tokens(all.begin() + position, all.begin() + position + 12));
    }
  }
  // A source alone, whatever its weight, is as its files without a mixture.
  CHECK(rows_of(TokenLoader::mix({{sources[0].files, 0.1}}, shape(9)), 0, 2) ==
        rows_of(TokenLoader(sources[0].files, shape(9)), 0, 2));
}
