// Encoding and decoding base64.
#include "io/base64.h"

#include <string>

#include "test_main/catch.h"

using lt::io::from_base64, lt::io::to_base64;

TEST_CASE("base64: the examples of RFC 4648", "[io]") {
  const std::pair<const char*, const char*> examples[] = {{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : examples) {
    CHECK(to_base64(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
}

TEST_CASE("base64: every byte comes back, other text is refused", "[io]") {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  CHECK(from_base64(to_base64(bytes)) == bytes);
  for (const char* const text : {"Zg", "Zg=", "Zg===", "Zh==", "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm-v", "=Zg="}) {
    INFO(text);
    CHECK_FALSE(from_base64(text).has_value());
  }
}
