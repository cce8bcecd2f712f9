// Normalization by utf8proc, with a fast path for text that is already normal. No other file includes utf8proc.
#include "tokenizer/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "libtrain/error.h"

namespace lt::tokenizer {

std::string nfc(std::string_view text) {
  // Characters below U+0300, whose first byte is below 0xCC, are normal, and combine with none of each other.
  const auto is_low = [](char c) { return static_cast<unsigned char>(c) < 0xcc; };
  if (std::all_of(text.begin(), text.end(), is_low)) return std::string(text);
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> memory(mapped, &std::free);
  if (length < 0) throw DataError("tokenizer", std::string("text: cannot be normalized: ") + utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length)};
}

}  // namespace lt::tokenizer
