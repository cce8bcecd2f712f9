// Reading ahead gives the same rows as reading in place, from any position. An error is thrown by the step that it
// belongs to. Ending does not wait for reads.
#include "data/read_ahead.h"

#include <filesystem>

#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"
#include "test_main/temp_folder.h"

using lt::DataError;
using lt::Size;
using lt::data::ReadAhead;
using lt::data::Samples;
using lt_test::message_of;
using lt_test::TempFolder;

namespace {

constexpr Size kLength = 16;  // tokens of a row

struct Fixture {
  explicit Fixture(Size blocks) {
    std::vector<std::uint32_t> tokens(static_cast<std::size_t>(blocks * kLength + 1));
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint32_t>(i * 7919 % 50000);
    lt::write_token_file(folder / "a.bin", tokens);
    samples = std::make_shared<const Samples>(std::vector<lt::DataSource>{{{folder / "a.bin"}, 1}}, kLength,
                                              lt::DataOptions{});
  }
  const TempFolder folder;
  std::shared_ptr<const Samples> samples;
};

// A step's rows, inputs and then targets.
std::vector<std::int32_t> taken(ReadAhead& ahead, const lt::BatchShape& shape, Size position) {
  const auto half = static_cast<std::size_t>(shape.samples() * kLength);
  std::vector<std::int32_t> both(2 * half);
  ahead.take(position, both.data(), both.data() + half);
  return both;
}

std::vector<std::int32_t> read_in_place(const Samples& samples, const lt::BatchShape& shape, Size position) {
  const Size rows = shape.samples();
  const auto half = static_cast<std::size_t>(rows * kLength);
  std::vector<std::int32_t> both(2 * half), tokens(kLength + 1);
  for (Size row = 0; row < rows; ++row) {
    samples.read_row(position + shape.sample_of(row), both.data() + row * kLength,
                     both.data() + static_cast<Size>(half) + row * kLength, tokens.data());
  }
  return both;
}

}  // namespace

TEST_CASE("ReadAhead: the rows of reading in place, from any position on", "[data]") {
  const Fixture data(100);
  for (const auto& [micro_batch, accum] : {std::pair<Size, Size>{1, 1}, {3, 2}, {2, 3}, {40, 1}}) {
    const lt::BatchShape shape{.micro_batch = micro_batch,
                               .accum = accum,
                               .seq = kLength,
                               .rank = 1,
                               .ranks = 3,
                               .interleaved = micro_batch == 2};
    ReadAhead ahead(data.samples, shape);
    // Steps in a row, the same step again, back, and forward by less than a step.
    Size position = 0;
    for (const Size begin : {Size{0}, Size{0}, 5 * shape.global_samples(), Size{7}, Size{1000}}) {
      position = begin;
      for (int step = 0; step < 6; ++step, position += shape.global_samples()) {
        INFO("micro_batch " << micro_batch << ", position " << position);
        CHECK(taken(ahead, shape, position) == read_in_place(*data.samples, shape, position));
      }
    }
    CHECK(ahead.threads() >= 1);
  }
}

TEST_CASE("ReadAhead: an error comes with the step that it belongs to, and another call reads again", "[data]") {
  const Fixture data(64);
  const std::string path = data.folder / "a.bin";
  const lt::BatchShape shape{.micro_batch = 64, .seq = kLength};
  ReadAhead ahead(data.samples, shape);
  const std::vector<std::int32_t> whole = taken(ahead, shape, 0);
  const std::string content = data.folder.read("a.bin");
  std::filesystem::resize_file(path, 1500);
  const std::string expected =
      path + ": offset 1500: the file changed while it was in use: expected 3074 bytes, found 1500";
  CHECK(message_of<DataError>([&] { taken(ahead, shape, 64 * 1000); }) == expected);
  CHECK(message_of<DataError>([&] { taken(ahead, shape, 64 * 1000); }) == expected);
  data.folder.write("a.bin", content);
  CHECK(taken(ahead, shape, 0) == whole);
}

TEST_CASE("ReadAhead: ends at once, with and without reads in flight", "[data]") {
  const Fixture data(50);
  const lt::BatchShape shape{.micro_batch = 5, .seq = kLength};
  for (int round = 0; round < 50; ++round) {
    ReadAhead ahead(data.samples, shape);
    if (round % 2 == 0) taken(ahead, shape, round);
  }
}
