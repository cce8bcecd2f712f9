// Fuzzes a configuration in TOML. An accepted one must survive being printed and read back.
#include "libtrain/config/config.h"
#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(fuzz::text_of(data, size));
  fuzz::read_or_refuse([&] {
    const std::string printed = lt::to_toml(lt::load_config(file.path(), {}));
    const fuzz::File again(printed);
    if (lt::to_toml(lt::load_config(again.path(), {})) != printed) std::abort();
  });
  return 0;
}
