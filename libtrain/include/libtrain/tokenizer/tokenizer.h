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
// What encodes takes any bytes: invalid UTF-8 becomes U+FFFD, except that the ids of `byte` are the bytes. It throws
// DataError for a text that exceeds the limits of a pattern's matching, or has a word of 2^31 tokens.
class Tokenizer {
 public:
  using Ids = std::vector<std::uint32_t>;
  virtual ~Tokenizer() = default;

  // The tokens of one text. No tokens are added at its beginning or end.
  virtual Ids encode(std::string_view text) const = 0;
  // The tokens of several texts, each for itself, on all threads of the kernels.
  virtual std::vector<Ids> encode_each(std::span<const std::string_view> texts) const;
  // Appends the tokens of the front of a text that goes on behind `text`, and returns how many bytes of it they stand
  // for: 0 if that needs more text. `continues`: `text` follows what an earlier call returned. The tokens of all calls
  // are those of the whole text. `ends`: nothing goes on, so all of it is encoded. By default a text is encoded when
  // all of it is there.
  virtual std::size_t encode_front(std::string_view text, bool continues, bool ends, Ids& ids) const;
  // The tokens of one text, valid UTF-8, and for each of the byte positions, in rising order, the one that holds that
  // byte. A byte that no token holds, such as one of a character that the vocabulary lacks, has none: the range is
  // empty and begins behind the tokens before it. Positions of text.size() or more are left out. Normalization must not
  // join what is before a position with what follows; a byte that it removes counts as the one behind it.
  struct Located {
    Ids ids;
    std::vector<TokenRange> tokens;
  };
  virtual Located encode_located(std::string_view text, std::span<const std::size_t> positions) const;
  // The text of tokens. Byte-level tokenizers may end within a character: see TextStream.
  virtual std::string decode(const Ids& tokens) const = 0;
  // The bytes that a token stands for within a text; empty for an id outside the vocabulary.
  virtual std::string bytes_of(std::uint32_t token) const = 0;
  // How many bytes of a text a token stands for: 0 for a special one. A token that begins a document stands for none of
  // the space that encode() puts before a text.
  virtual Size text_bytes(std::uint32_t token, bool /*begins_document*/) const {
    return static_cast<Size>(bytes_of(token).size());
  }
  // Ids are below it.
  virtual Size vocab() const = 0;
  // Bytes of text per token; 0 if tokens differ in length.
  virtual double bytes_per_token() const = 0;
  // The token that ends a document, if the vocabulary has one.
  virtual std::optional<std::uint32_t> end_of_text() const { return std::nullopt; }
  // The token that stands for exactly this text wherever a text has it, such as "<|im_end|>", if there is one.
  virtual std::optional<std::uint32_t> added_token(std::string_view /*text*/) const { return std::nullopt; }
  // Returns the text of tokenizer.json.
  virtual std::string to_json() const = 0;
};

// Makes text of tokens that come one after another, character by character.
class TextStream {
 public:
  // The tokenizer must outlive the stream.
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  // Returns the characters that are complete with this token; invalid bytes become U+FFFD. Of tokens of a fixed length
  // it returns the bytes as they are.
  std::string push(std::uint32_t token);
  // Returns what is left.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string pending_;
};

// What a user calls a tokenizer: `byte`, the path of a tokenizer.json, or a folder that holds one. Returns `byte` or
// the file. Throws UsageError for anything else.
std::string find_tokenizer(const std::string& name_or_path);
// Makes what find_tokenizer() finds. Throws UsageError or DataError.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name_or_path);
// Makes a tokenizer from the text of a tokenizer.json; errors name it by `where`. Throws UsageError for a kind that is
// not supported, and DataError for a broken file.
std::unique_ptr<Tokenizer> tokenizer_from_json(const std::string& text, const std::string& where);
// The same, but null for a kind that is not supported: checkpoints keep and export such a file. Throws DataError.
std::unique_ptr<Tokenizer> supported_tokenizer(const std::string& text, const std::string& where);
// Why this version has no tokenizer for a model with this tokenizer.json, or with none ("") and these other files of a
// tokenizer: what is not supported, after `where`. Empty if it has one, or if the model has no such files. Throws
// DataError for a broken tokenizer.json.
std::string unsupported_reason(const std::string& text, const std::map<std::string, std::string>& other_files,
                               const std::string& where);

}  // namespace lt
