// Tokenizers: text to token ids and back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/dtype.h"

namespace LT_API lt {

// Tokens [begin, end) of a text.
struct TokenRange {
  std::size_t begin = 0, end = 0;
};

// Converts text to token ids and back. Several threads may use one tokenizer at a time.
//
// The encode functions take any bytes: invalid UTF-8 becomes U+FFFD; only the tokenizer `byte` keeps it, because its
// ids are the bytes. They throw DataError if matching a pattern exceeds its limits, or for a word of 2^31 tokens or
// more.
class Tokenizer {
 public:
  using Ids = std::vector<std::uint32_t>;
  virtual ~Tokenizer() = default;

  // Returns the tokens of one text. Adds no tokens at its beginning or end.
  virtual Ids encode(std::string_view text) const = 0;
  // Like encode() for each of several texts. Tokenizers may override it to use all threads of the kernels.
  virtual std::vector<Ids> encode_each(std::span<const std::string_view> texts) const;
  // Encodes a long text piece by piece. Appends the tokens of a front part of `text` to `ids` and returns the bytes of
  // that part, or 0 if more text is needed. The next call must begin with the byte after that part, and pass
  // `continues`. `ends`: no text follows `text`, so all of it is encoded. All calls together append the tokens of the
  // complete text. The default encodes nothing until `ends`.
  virtual std::size_t encode_front(std::string_view text, bool continues, bool ends, Ids& ids) const;
  // Returns the tokens of one text, which must be valid UTF-8, and for each of the byte positions, given in rising
  // order, the range of the token that holds that byte. If no token holds it, for example because the vocabulary lacks
  // its character, the range is empty and begins after the tokens before it. For a byte that normalization removes, it
  // is the range of the next byte. The result ends before the first position >= text.size(). Normalization must not
  // join text before a position with text after it.
  struct Located {
    Ids ids;
    std::vector<TokenRange> tokens;
  };
  virtual Located encode_located(std::string_view text, std::span<const std::size_t> positions) const;
  // Returns the text of tokens. Tokens may end within a character; TextStream decodes token by token.
  virtual std::string decode(const Ids& tokens) const = 0;
  // The bytes of a token inside a text; empty for an id outside of the vocabulary.
  virtual std::string bytes_of(std::uint32_t token) const = 0;
  // The number of bytes of text that a token decodes to; 0 for a special token. With `begins_document`, excludes the
  // space that encode() puts before a text.
  virtual Size text_bytes(std::uint32_t token, bool /*begins_document*/) const {
    return static_cast<Size>(bytes_of(token).size());
  }
  // The size of the vocabulary. All ids are below it.
  virtual Size vocab() const = 0;
  // Bytes of text per token; 0 if tokens differ in length.
  virtual double bytes_per_token() const = 0;
  // The token that ends a document; nullopt if the vocabulary has none.
  virtual std::optional<std::uint32_t> end_of_text() const { return std::nullopt; }
  // The added token with exactly this text, such as "<|im_end|>"; nullopt if there is none. encode() gives that token
  // wherever it finds the text.
  virtual std::optional<std::uint32_t> added_token(std::string_view /*text*/) const { return std::nullopt; }
  // Returns the text of tokenizer.json.
  virtual std::string to_json() const = 0;
};

// Decodes tokens one by one, and returns complete characters.
class TextStream {
 public:
  // The tokenizer must outlive the stream.
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // Returns the characters that this token completes. Invalid bytes become U+FFFD. For tokens of a fixed length,
  // returns the bytes of the token unchanged.
  std::string push(std::uint32_t token);
  // Returns the rest of the text: U+FFFD for an incomplete character. The stream is then empty.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
};

// Resolves the name of a tokenizer: `byte`, the path of a tokenizer.json, or a folder that holds one. Returns `byte` or
// the path of the file, which may not exist. Throws UsageError for any other name.
std::string find_tokenizer(const std::string& name_or_path);
// Makes the tokenizer that find_tokenizer() finds. Throws UsageError for an unsupported kind or an unknown name, and
// DataError for a missing or broken file.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name_or_path);
// Makes a tokenizer from the text of a tokenizer.json. Errors begin with `where`. Throws UsageError for an unsupported
// kind, and DataError for a broken file.
std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& text, const std::string& where);
// Like tokenizer_from_json(), but returns null for an unsupported kind, because checkpoints keep and export such a
// file.
std::unique_ptr<Tokenizer> supported_tokenizer(const std::string& text, const std::string& where);
// Returns why this version cannot make the tokenizer of a model: `where`, followed by the unsupported feature. `text`
// is the model's tokenizer.json ("" if it has none); `other_files` are the other files of its tokenizer, by name.
// Returns
// "" if the tokenizer is supported, or if the model has no such files. Throws DataError for a broken tokenizer.json.
std::string unsupported_reason(const std::string& text, const std::map<std::string, std::string>& other_files,
                               const std::string& where);

}  // namespace lt
