// Computes CRC32C. Polynomials over GF(2) are stored bit-reflected: bit 31 is the coefficient of x^0.
#include "io/crc32c.h"

#include <array>
#include <cstdio>
#include <cstring>

namespace lt::io {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78u;  // without x^32

constexpr std::uint32_t times_x(std::uint32_t p) { return (p >> 1) ^ ((p & 1) != 0 ? kPolynomial : 0); }

// a * b modulo the polynomial.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (int power = 0; power < 32; ++power, b = times_x(b)) {
    if ((a >> (31 - power) & 1) != 0) product ^= b;
  }
  return product;
}

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = times_x(remainder);
    table[byte] = remainder;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)

// Takes and returns inverted remainders.
__attribute__((target("sse4.2"))) std::uint32_t one_stream(std::uint32_t state, const unsigned char* p, std::size_t n) {
  std::uint64_t wide = state;
  for (; n >= 8; p += 8, n -= 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  state = static_cast<std::uint32_t>(wide);
  for (; n > 0; ++p, --n) state = __builtin_ia32_crc32qi(state, *p);
  return state;
}

// The CRC instruction has a latency of three cycles and a throughput of one per cycle, so three independent streams run
// three times as fast. Concatenating their results costs about as much as 10 KiB of data.
__attribute__((target("sse4.2"))) std::uint32_t three_streams(std::uint32_t before, const unsigned char* p,
                                                              std::size_t third) {
  std::uint64_t a = ~before, b = 0xffffffffu, c = 0xffffffffu;
  for (std::size_t i = 0; i < third; i += 8) {
    std::uint64_t words[3];
    std::memcpy(&words[0], p + i, 8);
    std::memcpy(&words[1], p + third + i, 8);
    std::memcpy(&words[2], p + 2 * third + i, 8);
    a = __builtin_ia32_crc32di(a, words[0]);
    b = __builtin_ia32_crc32di(b, words[1]);
    c = __builtin_ia32_crc32di(c, words[2]);
  }
  const auto finish = [](std::uint64_t state) { return ~static_cast<std::uint32_t>(state); };
  return crc32c_concat(crc32c_concat(finish(a), finish(b), third), finish(c), third);
}

std::uint32_t crc32c_hardware(std::uint32_t before, const unsigned char* p, std::size_t n) {
  constexpr std::size_t kWorthIt = 256 * 1024;
  if (n >= kWorthIt) {
    const std::size_t third = n / 24 * 8;
    before = three_streams(before, p, third);
    p += 3 * third, n -= 3 * third;
  }
  return ~one_stream(~before, p, n);
}

#endif

}  // namespace

std::uint32_t crc32c_portable(std::uint32_t before, const void* data, std::size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::uint32_t state = ~before;
  for (std::size_t i = 0; i < bytes; ++i) state = kTable[(state ^ p[i]) & 0xff] ^ (state >> 8);
  return ~state;
}

std::uint32_t crc32c(std::uint32_t before, const void* data, std::size_t bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_hardware(before, static_cast<const unsigned char*>(data), bytes);
#endif
  return crc32c_portable(before, data, bytes);
}

std::uint32_t crc32c_concat(std::uint32_t crc_a, std::uint32_t crc_b, std::uint64_t bytes_b) {
  // Multiplies crc_a by x^(8 * bytes_b), with one power of x^8, x^16, x^32, ... for each set bit of the length.
  std::uint32_t square = 0x80000000u >> 8;
  for (; bytes_b != 0; bytes_b >>= 1, square = multiply(square, square)) {
    if ((bytes_b & 1) != 0) crc_a = multiply(crc_a, square);
  }
  return crc_a ^ crc_b;
}

std::string crc_text(std::uint32_t crc) {
  char text[9];
  std::snprintf(text, sizeof text, "%08x", crc);
  return text;
}

}  // namespace lt::io
