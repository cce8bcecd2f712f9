// Encodes and decodes with byte pair encoding.
#include "tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <new>
#include <utility>

#include "io/utf8.h"
#include "kernels/threads.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/token_search.h"
#include "tokenizer/word_cache.h"

namespace lt {
namespace {

constexpr std::size_t kStretchBytes = std::size_t{128} << 10;  // of a long text, for one thread at a time

// Names under which published tokenizers have the token that ends a document, the likeliest first.
constexpr std::array<std::string_view, 5> kEndOfText = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>",
                                                        "<eos>"};

// Calls body(i) for i in [0, count), on all threads if asked. Throws what the first failed call threw.
template <class Body>
void for_each_on_threads(std::size_t count, bool on_all_threads, Body&& body) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) body(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  if (on_all_threads && count > 1) {
    kernels::on_each_thread(work);
  } else {
    work();
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

// Where a stretch may begin: after the first line feed from `from` on that an ASCII letter follows.
std::size_t stretch_begin(std::string_view text, std::size_t from) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (std::size_t at = text.find('\n', from); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    if (at + 1 < text.size() && is_letter(text[at + 1])) return at + 1;
  }
  return text.size();
}

}  // namespace

struct BpeTokenizer::Worker {
  explicit Worker(const PreTokenizer& rules) : cutter(rules) {}
  WordCutter cutter;
  WordCache cache;
  std::vector<std::size_t> ends;
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
      json_(std::move(json)) {
  std::uint32_t last = 0;
  for (const auto& [token, id] : description.vocabulary) last = std::max(last, id);
  for (const AddedToken& token : description.added) last = std::max(last, token.id);
  bytes_.resize(std::size_t{last} + 1);
  const Normalizer with_spaces{false, "", std::string(kMetaspace), " "};
  for (const auto& [token, id] : description.vocabulary) {
    const auto byte = decoder_.bytes ? std::nullopt : byte_of_token(token);
    bytes_[id] = decoder_.bytes ? token : byte ? std::string(1, *byte) : with_spaces(token);
  }
  std::vector<AddedToken> raw, normalized;
  for (AddedToken& token : description.added) {
    bytes_[token.id] = token.content;
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

Tokenizer::Ids BpeTokenizer::encode(std::string_view text) const { return encode(text, true, nullptr); }

Tokenizer::Located BpeTokenizer::encode_located(std::string_view text, std::span<const std::size_t> positions) const {
  Located located;
  TokenSearch search({positions.begin(), positions.end()}, located.tokens);
  located.ids = encode(text, false, &search);
  return located;
}

std::vector<Tokenizer::Ids> BpeTokenizer::encode_each(std::span<const std::string_view> texts) const {
  std::vector<Ids> all(texts.size());
  for_each_on_threads(texts.size(), true, [&](std::size_t i) {
    if (texts[i].size() <= kStretchBytes) all[i] = encode(texts[i], false, nullptr);
  });
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() > kStretchBytes) all[i] = encode(texts[i], true, nullptr);
  }
  return all;
}

Tokenizer::Ids BpeTokenizer::encode(std::string_view text, bool on_all_threads, TokenSearch* search) const {
  std::string repaired;
  if (!is_utf8(text)) text = repaired = repaired_utf8(text);
  Ids ids;
  // Appends an added token, which begins at `begin`.
  const auto append_token = [&](const Section& section, std::size_t begin, TokenSearch* sought) {
    if (sought != nullptr) sought->found(begin + section.text.size(), ids.size());
    ids.push_back(section.token->id);
  };
  const auto within = [](TokenSearch* sought, std::string_view section, std::size_t begin, const auto& map) {
    return sought != nullptr ? std::optional(sought->within(section, begin, map)) : std::nullopt;
  };
  const auto pointer = [](std::optional<TokenSearch>& sought) { return sought ? &*sought : nullptr; };
  for (const Section& section : raw_added_.find(text)) {
    const auto offset = static_cast<std::size_t>(section.text.data() - text.data());
    if (section.token != nullptr) {
      append_token(section, offset, search);
      continue;
    }
    const std::string normalized = normalizer_(section.text);
    auto sought = within(search, section.text, offset, normalizer_);
    for (const Section& inner : normalized_added_.find(normalized)) {
      const auto at = static_cast<std::size_t>(inner.text.data() - normalized.data());
      if (inner.token != nullptr) {
        append_token(inner, at, pointer(sought));
        continue;
      }
      const auto prepare = [&](std::string_view part) {
        return pre_tokenizer_.prepared(std::string(part), offset + at);
      };
      auto sought_inside = within(pointer(sought), inner.text, at, prepare);
      encode_prepared(prepare(inner.text), on_all_threads, ids, pointer(sought_inside));
    }
  }
  return ids;
}

void BpeTokenizer::encode_prepared(std::string_view text, bool on_all_threads, Ids& ids, TokenSearch* search) const {
  if (search != nullptr) return void(encode_words(*WorkerLoan(*this), text, 0, text.size(), ids, search));
  struct Stretch {
    std::size_t begin, end, end_of_last_word = 0;
    Ids ids{};
  };
  // Text that is one word must not be looked through from every stretch.
  const bool has_words = !pre_tokenizer_.splits.empty() || pre_tokenizer_.split_metaspace || cuts_between_neighbours_;
  on_all_threads = on_all_threads && has_words;
  std::vector<Stretch> stretches;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end =
        on_all_threads ? stretch_begin(text, std::min(text.size(), begin + kStretchBytes)) : text.size();
    stretches.push_back({begin, end});
    begin = end;
  }
  const auto encode_stretch = [&](Stretch& stretch) {
    stretch.ids.clear();
    stretch.end_of_last_word = encode_words(*WorkerLoan(*this), text, stretch.begin, stretch.end, stretch.ids, nullptr);
  };
  for_each_on_threads(stretches.size(), on_all_threads, [&](std::size_t i) { encode_stretch(stretches[i]); });
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
}

std::size_t BpeTokenizer::encode_words(Worker& worker, std::string_view text, std::size_t begin, std::size_t end,
                                       Ids& ids, TokenSearch* search) const {
  const auto encode_word = [&](std::string_view word) {
    if (search != nullptr) {
      search->find_in(bpe_, word, static_cast<std::size_t>(word.data() - text.data()), ids.size());
    }
    worker.cache.append(word, ids, [&](std::string_view unknown, Ids& to) { bpe_.encode(unknown, to); });
  };
  if (pre_tokenizer_.splits.empty()) {
    while (begin < end) {
      const std::size_t word_end = end_of_plain_word(text, begin);
      encode_word(text.substr(begin, word_end - begin));
      begin = word_end;
    }
    return begin;
  }
  worker.ends.clear();
  worker.cutter.cut(text, begin, end, worker.ends);
  for (const std::size_t word_end : worker.ends) {
    worker.cutter.refine(text.substr(begin, word_end - begin), encode_word);
    begin = word_end;
  }
  return begin;
}

std::size_t BpeTokenizer::end_of_plain_word(std::string_view text, std::size_t begin) const {
  const bool may_end = pre_tokenizer_.split_metaspace || cuts_between_neighbours_;
  char32_t before = 0;
  for (std::size_t at = begin; may_end && at < text.size();) {
    const std::string_view rest = text.substr(at);
    const std::size_t length = std::max<std::size_t>(1, utf8_length(rest));
    const char32_t character = utf8_character(rest, length);
    if (at > begin && pre_tokenizer_.split_metaspace && rest.starts_with(kMetaspace)) return at;
    if (at > begin && cuts_between_neighbours_ && bpe_.may_cut(before, character)) return at;
    before = character, at += length;
  }
  return text.size();
}

std::string BpeTokenizer::bytes_of(std::uint32_t token) const {
  return token < bytes_.size() ? bytes_[token] : std::string();
}

std::string BpeTokenizer::decode(const Ids& tokens) const {
  std::string text;
  for (const std::uint32_t token : tokens) {
    text += token < bytes_.size() ? bytes_[token] : "\xEF\xBF\xBD";
    if (&token == tokens.data() && decoder_.first_without_spaces) std::erase(text, ' ');
  }
  if (decoder_.strip_first_space && text.starts_with(' ')) text.erase(0, 1);
  return is_utf8(text) ? text : repaired_utf8(text);
}

}  // namespace lt
