// Uses getrandom(2), which needs no file and no descriptor.
#include "io/entropy.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "libtrain/error.h"

namespace lt::io {

void fill_random(void* bytes, std::size_t count) {
  for (auto* p = static_cast<char*>(bytes); count > 0;) {
    const ssize_t got = ::getrandom(p, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw InternalError("core", std::string("random bits of the kernel: ") + std::strerror(errno));
    p += got, count -= static_cast<std::size_t>(got);
  }
}

std::string random_hex(std::size_t digits) {
  std::string text(digits, '\0');
  fill_random(text.data(), digits);
  for (char& digit : text) digit = "0123456789abcdef"[static_cast<unsigned char>(digit) & 15u];
  return text;
}

}  // namespace lt::io
