// Fuzzes tokenizer.json.
#include "libtrain/data/data.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::text_of(data, size);
  lt::can_read_tokenizer(text);
  fuzz::read_or_refuse([&] { lt::tokenizer_from_json(text, "tokenizer.json"); });
  return 0;
}
