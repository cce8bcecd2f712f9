// Byte pair encoding as a tokenizer: finds added tokens, normalizes, cuts words, merges; and decodes.
//
// Long texts are cut into stretches for several threads. A stretch begins where a word probably begins. If the previous
// word turns out to end elsewhere, the stretch is encoded again from there. So the tokens do not depend on the number
// of threads.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "libtrain/tokenizer/tokenizer.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer_json.h"

namespace lt::tokenizer {

class TokenSearch;

class BpeTokenizer final : public Tokenizer {
 public:
  // `json` is the file's text.
  BpeTokenizer(TokenizerDescription description, std::string json);
  ~BpeTokenizer() override;

  Ids encode(std::string_view text) const override;
  std::vector<Ids> encode_each(std::span<const std::string_view> texts) const override;
  std::size_t encode_front(std::string_view text, bool continues, bool ends, Ids& ids) const override;
  Located encode_located(std::string_view text, std::span<const std::size_t> positions) const override;
  std::string decode(const Ids& tokens) const override;
  std::string bytes_of(std::uint32_t token) const override;
  Size text_bytes(std::uint32_t token, bool begins_document) const override;
  Size vocab() const override { return static_cast<Size>(bytes_.size()); }
  double bytes_per_token() const override { return 0; }
  std::optional<std::uint32_t> end_of_text() const override;
  std::optional<std::uint32_t> added_token(std::string_view text) const override;
  std::string to_json() const override { return json_; }

 private:
  // The scratch data with which one thread encodes.
  struct Worker;
  class WorkerLoan;

  struct Manner {
    bool on_all_threads = false;
    TokenSearch* search = nullptr;  // only without on_all_threads
    bool continues = false;         // true: the text continues an earlier one that was cut at a valid place
  };
  // Appends the tokens of text[0, stop) as part of the whole `text`, which must be valid UTF-8. Returns false if
  // possibly no token ends at `stop`; the caller must then discard the tokens.
  bool encode_until(std::size_t stop, std::string_view text, const Manner& manner, Ids& ids) const;
  Ids encode(std::string_view text, const Manner& manner) const;
  bool encode_prepared(std::size_t stop, std::string_view text, const Manner& manner, Ids& ids) const;
  // Appends the tokens of the words that begin in text[begin, end). Returns the end of the last word.
  std::size_t encode_words(Worker& worker, std::string_view text, std::size_t begin, std::size_t end, Ids& ids,
                           TokenSearch* search) const;
  // Returns the end of the word that begins at `begin`, for tokenizers without patterns.
  std::size_t end_of_plain_word(std::string_view text, std::size_t begin) const;

  Bpe bpe_;
  AddedTokens raw_added_, normalized_added_;  // searched for in the raw text, and in the normalized text
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  TokenDecoder decoder_;
  bool cuts_between_neighbours_;
  bool may_be_cut_ = true;          // false if a replaced text or a single-word token has a cut place inside
                                    // (cut_places.h), or a pattern looks behind
  std::size_t longest_added_ = 0;   // bytes of the longest added token
  std::vector<std::string> bytes_;  // by id
  std::vector<bool> is_special_;    // by id
  std::unordered_map<std::string, std::uint32_t> added_;
  std::optional<std::uint32_t> end_of_text_;
  std::string json_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Worker>> idle_;
};

}  // namespace lt::tokenizer
