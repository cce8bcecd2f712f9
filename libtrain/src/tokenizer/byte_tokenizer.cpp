// Implements the byte tokenizer.
#include "tokenizer/byte_tokenizer.h"

namespace lt::tokenizer {
namespace {

constexpr std::uint32_t kBytes = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  Ids encode(std::string_view text) const override {
    Ids tokens(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) tokens[i] = static_cast<unsigned char>(text[i]);
    return tokens;
  }

  std::size_t encode_front(std::string_view text, bool, bool, Ids& ids) const override {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return text.size();
  }

  // An id of 256 or more becomes U+FFFD; a model with a larger vocabulary may produce one.
  std::string decode(const Ids& tokens) const override {
    std::string text;
    text.reserve(tokens.size());
    for (const std::uint32_t token : tokens) {
      if (token < kBytes) {
        text += static_cast<char>(token);
      } else {
        text += "\xEF\xBF\xBD";
      }
    }
    return text;
  }

  std::string bytes_of(std::uint32_t token) const override {
    return token < kBytes ? std::string(1, static_cast<char>(token)) : "";
  }
  Size vocab() const override { return kBytes; }
  double bytes_per_token() const override { return 1; }
  std::string to_json() const override { return "{\"type\":\"byte\",\"vocab\":256}\n"; }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace lt::tokenizer
