// Encodes and decodes with byte pair encoding.
#include "tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "io/utf8.h"
#include "kernels/for_each_on_threads.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/cut_places.h"
#include "tokenizer/token_search.h"
#include "tokenizer/word_cache.h"

namespace lt::tokenizer {
namespace {

// How much text behind a place must be known, beside the longest added token, before a text is cut there. Patterns look
// a few characters ahead.
constexpr std::size_t kAheadBytes = std::size_t{64} << 10;
constexpr std::size_t kStretchBytes = std::size_t{128} << 10;  // of a long text, for one thread at a time

// Names under which published tokenizers have the token that ends a document, the likeliest first.
constexpr std::array<std::string_view, 5> kEndOfText = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>",
                                                        "<eos>"};

}  // namespace

struct BpeTokenizer::Worker {
  explicit Worker(const PreTokenizer& rules) : cutter(rules) {}
  WordCutter cutter;
  WordCache cache;
  std::vector<WordCutter::WordEnd> ends;
};

// Takes an idle worker, or makes one, and gives it back.
class BpeTokenizer::WorkerLoan {
 public:
  explicit WorkerLoan(const BpeTokenizer& owner) : owner_(owner) {
    {
      const std::lock_guard lock(owner.mutex_);
      if (!owner.idle_.empty()) worker_ = std::move(owner.idle_.back()), owner.idle_.pop_back();
    }
    if (worker_ == nullptr) worker_ = std::make_unique<Worker>(owner.pre_tokenizer_);
  }
  ~WorkerLoan() {
    const std::lock_guard lock(owner_.mutex_);
    try {
      owner_.idle_.push_back(std::move(worker_));
    } catch (const std::bad_alloc&) {
      // The next loan makes a worker of its own.
    }
  }
  WorkerLoan(const WorkerLoan&) = delete;
  WorkerLoan& operator=(const WorkerLoan&) = delete;
  Worker& operator*() const { return *worker_; }

 private:
  const BpeTokenizer& owner_;
  std::unique_ptr<Worker> worker_;
};

BpeTokenizer::BpeTokenizer(TokenizerDescription description, std::string json)
    : bpe_(description.vocabulary, description.merges, description.bpe),
      normalizer_(description.normalizer),
      pre_tokenizer_(description.pre_tokenizer),
      decoder_(description.decoder),
      cuts_between_neighbours_(!description.bpe.by_bytes && !description.bpe.ignore_merges && bpe_.can_be_cut()),
      may_be_cut_(!has_cut_place(description.normalizer.replaced) &&
                  std::ranges::none_of(description.pre_tokenizer.splits,
                                       [](const Split& split) { return split.pattern.looks_behind(); })),
      json_(std::move(json)) {
  std::uint32_t last = 0;
  for (const auto& [token, id] : description.vocabulary) last = std::max(last, id);
  for (const AddedToken& token : description.added) last = std::max(last, token.id);
  bytes_.resize(std::size_t{last} + 1), is_special_.resize(bytes_.size());
  const Normalizer with_spaces{false, "", std::string(kMetaspace), " "};
  for (const auto& [token, id] : description.vocabulary) {
    const auto byte = decoder_.bytes ? std::nullopt : byte_of_token(token);
    bytes_[id] = decoder_.bytes ? token : byte ? std::string(1, *byte) : with_spaces(token);
  }
  std::vector<AddedToken> raw, normalized;
  for (AddedToken& token : description.added) {
    bytes_[token.id] = token.content, is_special_[token.id] = token.special;
    longest_added_ = std::max(longest_added_, token.content.size());
    // Nothing else is found inside of a word that is refused for what stands beside it, so texts are not cut there.
    if (token.single_word) may_be_cut_ = may_be_cut_ && !has_cut_place("x" + with_spaces(token.content));
    added_.emplace(token.content, token.id);
    if (token.normalized) token.content = normalizer_(token.content);
    (token.normalized ? normalized : raw).push_back(token);
  }
  for (const std::string_view name : kEndOfText) {
    if (!end_of_text_) end_of_text_ = added_token(name);
  }
  raw_added_ = AddedTokens(std::move(raw)), normalized_added_ = AddedTokens(std::move(normalized));
}

BpeTokenizer::~BpeTokenizer() = default;

std::optional<std::uint32_t> BpeTokenizer::end_of_text() const { return end_of_text_; }

std::optional<std::uint32_t> BpeTokenizer::added_token(std::string_view text) const {
  const auto found = added_.find(std::string(text));
  return found == added_.end() ? std::nullopt : std::optional(found->second);
}

Tokenizer::Ids BpeTokenizer::encode(std::string_view text) const { return encode(text, {.on_all_threads = true}); }

Tokenizer::Located BpeTokenizer::encode_located(std::string_view text, std::span<const std::size_t> positions) const {
  Located located;
  TokenSearch search({positions.begin(), positions.end()}, located.tokens);
  located.ids = encode(text, {.search = &search});
  return located;
}

std::vector<Tokenizer::Ids> BpeTokenizer::encode_each(std::span<const std::string_view> texts) const {
  std::vector<Ids> all(texts.size());
  kernels::for_each_on_threads(texts.size(), [&](std::size_t i) {
    if (texts[i].size() <= kStretchBytes) all[i] = encode(texts[i], {});
  });
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() > kStretchBytes) all[i] = encode(texts[i]);
  }
  return all;
}

std::size_t BpeTokenizer::encode_front(std::string_view text, bool continues, bool ends, Ids& ids) const {
  const Manner manner{.on_all_threads = true, .continues = continues};
  const auto append = [&](const Ids& more) { ids.insert(ids.end(), more.begin(), more.end()); };
  if (ends) {
    append(encode(text, manner));
    return text.size();
  }
  if (!may_be_cut_) return 0;
  // Up to a character of ASCII, so that the last character is whole.
  while (!text.empty() && static_cast<unsigned char>(text.back()) >= 0x80) text.remove_suffix(1);
  constexpr int kAttempts = 3;
  const std::size_t ahead = kAheadBytes + longest_added_;
  const bool spaces_alone = pre_tokenizer_.split_metaspace && !cuts_between_neighbours_;  // nothing else begins a word
  std::size_t cut = text.size();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    cut = last_cut_place(text, cut < ahead ? 0 : cut - ahead, spaces_alone);
    if (cut == 0) return 0;
    Ids front;
    bool is_cut = false;
    if (io::is_utf8(text)) {
      is_cut = encode_until(cut, text, manner, front);
    } else {
      const std::string before = io::repaired_utf8(text.substr(0, cut));
      is_cut = encode_until(before.size(), before + io::repaired_utf8(text.substr(cut)), manner, front);
    }
    if (!is_cut) continue;
    append(front);
    return cut;
  }
  return 0;
}

Tokenizer::Ids BpeTokenizer::encode(std::string_view text, const Manner& manner) const {
  std::string repaired;
  if (!io::is_utf8(text)) text = repaired = io::repaired_utf8(text);
  Ids ids;
  encode_until(text.size(), text, manner, ids);
  return ids;
}

bool BpeTokenizer::encode_until(std::size_t stop, std::string_view text, const Manner& manner, Ids& ids) const {
  // Appends an added token, which begins at `begin`.
  const auto append_token = [&](const Section& section, std::size_t begin, TokenSearch* search) {
    if (search != nullptr) search->found(begin + section.text.size(), ids.size());
    ids.push_back(section.token->id);
  };
  const auto within = [](TokenSearch* search, std::string_view section, std::size_t begin, const auto& map) {
    return search != nullptr ? std::optional(search->within(section, begin, map)) : std::nullopt;
  };
  const auto pointer = [](std::optional<TokenSearch>& search) { return search ? &*search : nullptr; };
  for (const Section& section : raw_added_.find(text)) {
    const auto begin = static_cast<std::size_t>(section.text.data() - text.data());
    // A text that continues another may begin with an added token, but it begins no section of text.
    if (begin >= stop) return section.token != nullptr;
    const bool stops = begin + section.text.size() > stop, continues = manner.continues && begin == 0;
    if (section.token != nullptr) {
      if (stops) return false;
      append_token(section, begin, manner.search);
      continue;
    }
    const auto normalize = [&](std::string_view part) { return normalizer_(part, continues); };
    const std::string normalized = normalize(section.text);
    const std::size_t stop_here = stops ? normalize(section.text.substr(0, stop - begin)).size() : normalized.size();
    auto search = within(manner.search, section.text, begin, normalize);
    for (const Section& inner : normalized_added_.find(normalized)) {
      const auto at = static_cast<std::size_t>(inner.text.data() - normalized.data());
      if (at >= stop_here) return inner.token != nullptr;
      const bool stops_inside = at + inner.text.size() > stop_here;
      if (inner.token != nullptr) {
        if (stops_inside) return false;
        append_token(inner, at, pointer(search));
        continue;
      }
      const auto prepare = [&](std::string_view part) {
        return pre_tokenizer_.prepared(std::string(part), begin + at == 0 && !manner.continues, continues && at == 0);
      };
      const std::string prepared = prepare(inner.text);
      auto search_inside = within(pointer(search), inner.text, at, prepare);
      const std::size_t end = stops_inside ? prepare(inner.text.substr(0, stop_here - at)).size() : prepared.size();
      if (!encode_prepared(end, prepared, {manner.on_all_threads, pointer(search_inside)}, ids)) return false;
      if (search_inside) search_inside->finish(ids.size());
      if (stops_inside) return true;
    }
    if (search) search->finish(ids.size());
    if (stops) return false;  // between two sections
  }
  return true;
}

bool BpeTokenizer::encode_prepared(std::size_t stop, std::string_view text, const Manner& manner, Ids& ids) const {
  if (manner.search != nullptr) return encode_words(*WorkerLoan(*this), text, 0, stop, ids, manner.search) == stop;
  struct Stretch {
    std::size_t begin, end, end_of_last_word = 0;
    Ids ids{};
  };
  // Text that is one word must not be looked through from every stretch.
  const bool has_words = pre_tokenizer_.cuts_text() || pre_tokenizer_.split_metaspace || cuts_between_neighbours_;
  const bool on_all_threads = manner.on_all_threads && has_words;
  std::vector<Stretch> stretches;
  for (std::size_t begin = 0; begin < stop;) {
    const std::size_t end =
        on_all_threads ? std::min(stop, next_cut_place(text, std::min(stop, begin + kStretchBytes))) : stop;
    stretches.push_back({begin, end});
    begin = end;
  }
  const auto encode_stretch = [&](Stretch& stretch) {
    stretch.ids.clear();
    stretch.end_of_last_word = encode_words(*WorkerLoan(*this), text, stretch.begin, stretch.end, stretch.ids, nullptr);
  };
  const auto encode_number = [&](std::size_t i) { encode_stretch(stretches[i]); };
  if (on_all_threads) {
    kernels::for_each_on_threads(stretches.size(), encode_number);
  } else {
    for (std::size_t i = 0; i < stretches.size(); ++i) encode_number(i);
  }
  std::size_t done = 0;
  for (Stretch& stretch : stretches) {
    if (done >= stretch.end) continue;  // a word went on through all of it
    if (stretch.begin != done) {
      stretch.begin = done;
      encode_stretch(stretch);
    }
    ids.insert(ids.end(), stretch.ids.begin(), stretch.ids.end());
    done = stretch.end_of_last_word;
  }
  return done == stop;
}

std::size_t BpeTokenizer::encode_words(Worker& worker, std::string_view text, std::size_t begin, std::size_t end,
                                       Ids& ids, TokenSearch* search) const {
  const auto encode_word = [&](std::string_view word) {
    if (search != nullptr) {
      search->find_in(bpe_, word, static_cast<std::size_t>(word.data() - text.data()), ids.size());
    }
    worker.cache.append(word, ids, [&](std::string_view unknown, Ids& to) { bpe_.encode(unknown, to); });
  };
  if (!pre_tokenizer_.cuts_text()) {
    while (begin < end) {
      const std::size_t word_end = end_of_plain_word(text, begin);
      worker.cutter.refine(text.substr(begin, word_end - begin), encode_word);
      begin = word_end;
    }
    return begin;
  }
  worker.ends.clear();
  worker.cutter.cut(text, begin, end, worker.ends);
  for (const auto& [word_end, is_dropped] : worker.ends) {
    if (!is_dropped) worker.cutter.refine(text.substr(begin, word_end - begin), encode_word);
    begin = word_end;
  }
  return begin;
}

std::size_t BpeTokenizer::end_of_plain_word(std::string_view text, std::size_t begin) const {
  const bool may_end = pre_tokenizer_.split_metaspace || cuts_between_neighbours_;
  char32_t before = 0;
  for (std::size_t at = begin; may_end && at < text.size();) {
    const std::string_view rest = text.substr(at);
    const std::size_t length = std::max<std::size_t>(1, io::utf8_length(rest));
    const char32_t character = io::utf8_character(rest, length);
    if (at > begin && pre_tokenizer_.split_metaspace && rest.starts_with(kMetaspace)) return at;
    if (at > begin && cuts_between_neighbours_ && bpe_.may_cut(before, character)) return at;
    before = character, at += length;
  }
  return text.size();
}

std::string BpeTokenizer::bytes_of(std::uint32_t token) const {
  return token < bytes_.size() ? bytes_[token] : std::string();
}

Size BpeTokenizer::text_bytes(std::uint32_t token, bool begins_document) const {
  if (token >= bytes_.size() || is_special_[token]) return 0;
  const std::string& bytes = bytes_[token];
  std::ptrdiff_t spaces = 0;
  if (begins_document && decoder_.first_without_spaces) {
    spaces = std::ranges::count(bytes, ' ');
  } else if (begins_document && (decoder_.strip_first_space || pre_tokenizer_.add_prefix_space)) {
    spaces = bytes.starts_with(' ') ? 1 : 0;
  }
  return std::ssize(bytes) - spaces;
}

std::string BpeTokenizer::decode(const Ids& tokens) const {
  std::string text;
  for (const std::uint32_t token : tokens) {
    text += token < bytes_.size() ? bytes_[token] : "\xEF\xBF\xBD";
    if (&token == tokens.data() && decoder_.first_without_spaces) std::erase(text, ' ');
  }
  if (decoder_.strip_first_space && text.starts_with(' ')) text.erase(0, 1);
  return io::is_utf8(text) ? text : io::repaired_utf8(text);
}

}  // namespace lt::tokenizer
