// Fuzzes token files: the header, every token, and the search for a token outside the vocabulary. The same bytes are
// read as a mask.
#include <vector>

#include "data/mask_file.h"
#include "fuzz/target.h"
#include "libtrain/data/data.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(fuzz::text_of(data, size));
  for (const auto format : {lt::TokenFormat::automatic, lt::TokenFormat::raw16}) {
    fuzz::read_or_refuse([&] {
      const lt::TokenFile tokens(file.path(), format);
      std::vector<std::int32_t> values(static_cast<std::size_t>(tokens.tokens()));
      tokens.read(0, tokens.tokens(), values.data());
      if (tokens.digest().size() != 16) std::abort();
      tokens.require_below(256, 0, tokens.tokens());
      for (const std::int32_t value : values) {
        if (value < 0 || value > 255) std::abort();
      }
    });
  }
  fuzz::read_or_refuse([&] {
    const lt::Size count = size > 11 ? data[8] | data[9] << 8 : 0;
    const lt::data::MaskFile mask(file.path(), count);
    std::vector<std::int32_t> targets(static_cast<std::size_t>(count), 0);
    mask.apply(0, count, targets.data());
    for (const std::int32_t target : targets) {
      if (target != 0 && target != lt::kIgnoredTarget) std::abort();
    }
  });
  return 0;
}
