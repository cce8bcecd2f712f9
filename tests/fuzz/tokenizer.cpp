// Fuzzes tokenizer.json, and the text that a tokenizer encodes: the bytes after the first NUL.
#include "libtrain/tokenizer/tokenizer.h"

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  const std::string json = text.substr(0, text.find('\0'));
  const std::string words = json.size() < text.size() ? text.substr(json.size() + 1) : "a b\xff\n";
  fuzz::read_or_refuse([&] { lt::supported_tokenizer(json, "tokenizer.json"); });
  fuzz::read_or_refuse([&] {
    const auto tokenizer = lt::tokenizer_from_json(json, "tokenizer.json");
    tokenizer->decode(tokenizer->encode(words));
  });
  return 0;
}
