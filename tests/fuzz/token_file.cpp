// Fuzzes token files: the header, every token, and the search for a token outside the vocabulary.
#include <vector>

#include "libtrain/data/data.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(fuzz::text_of(data, size));
  for (const auto format : {lt::TokenFormat::automatic, lt::TokenFormat::raw16}) {
    fuzz::read_or_refuse([&] {
      const lt::TokenFile tokens(file.path(), format);
      std::vector<std::int32_t> values(static_cast<std::size_t>(tokens.tokens()));
      tokens.read(0, tokens.tokens(), values.data());
      tokens.require_below(256, 0, tokens.tokens());
      for (const std::int32_t value : values) {
        if (value < 0 || value > 255) std::abort();
      }
    });
  }
  return 0;
}
