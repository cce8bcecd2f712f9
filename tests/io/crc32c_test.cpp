// CRC32C against the published values, and its fast versions against the portable one.
#include "io/crc32c.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "libtrain/kernels/random.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::io;

TEST_CASE("crc32c: values of RFC 3720, appendix B.4", "[io]") {
  std::vector<unsigned char> ascending(32), descending(32);
  std::iota(ascending.begin(), ascending.end(), static_cast<unsigned char>(0));
  std::copy(ascending.rbegin(), ascending.rend(), descending.begin());
  const std::vector<unsigned char> zeros(32, 0), ones(32, 0xff);
  for (const auto sum : {&crc32c, &crc32c_portable}) {
    CHECK(sum(0, zeros.data(), 32) == 0x8a9136aau);
    CHECK(sum(0, ones.data(), 32) == 0x62a8ab43u);
    CHECK(sum(0, ascending.data(), 32) == 0x46dd794eu);
    CHECK(sum(0, descending.data(), 32) == 0x113fdb5cu);
    CHECK(sum(0, "123456789", 9) == 0xe3069283u);
    CHECK(sum(0, nullptr, 0) == 0u);
  }
  CHECK(crc_text(0x8au) == "0000008a");
}

TEST_CASE("crc32c: the processor's instruction, the table and concatenation agree", "[io]") {
  std::vector<unsigned char> bytes(1 << 20);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(lt::philox_word(7, i));
  const std::size_t lengths[] = {1, 7, 8, 9, 63, 1000, 262143, 262144, 262145, 524309, bytes.size() - 3};
  for (const std::size_t length : lengths) {
    for (std::size_t offset = 0; offset < 3; ++offset) {
      const unsigned char* p = bytes.data() + offset;
      const std::uint32_t whole = crc32c(0, p, length);
      CHECK(whole == crc32c_portable(0, p, length));
      const std::size_t half = length / 2;
      CHECK(whole == crc32c(crc32c(0, p, half), p + half, length - half));
      CHECK(whole == crc32c_concat(crc32c(0, p, half), crc32c(0, p + half, length - half), length - half));
    }
  }
}
