// Fuzzes manifest.json. The checksum is made to agree with the bytes, so that the code behind its check is reached.
#include "checkpoints/format/manifest.h"

#include "fuzz/target.h"
#include "io/crc32c.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text = fuzz::text_of(data, size);
  // The last line but one holds the crc32c of the text before it.
  const std::string key = " \"crc32c\": \"";
  if (const std::size_t begin = text.rfind(key); begin != text.npos) {
    text = text.substr(0, begin) + key + lt::io::crc_text(lt::io::crc32c(0, text.data(), begin)) + "\"\n}\n";
  }
  fuzz::read_or_refuse([&] {
    const lt::checkpoint::Manifest manifest = lt::checkpoint::parse_manifest(text);
    // A parsed manifest can be written and read back unchanged.
    const std::string written = lt::checkpoint::manifest_text(manifest);
    if (lt::checkpoint::manifest_text(lt::checkpoint::parse_manifest(written)) != written) std::abort();
  });
  return 0;
}
