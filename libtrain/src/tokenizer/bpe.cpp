// Merges the tokens of a word: short words by repeated search, long ones with a heap.
#include "tokenizer/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>

#include "io/utf8.h"
#include "libtrain/error.h"
#include "tokenizer/byte_alphabet.h"

namespace lt::tokenizer {
namespace {

// Above this many tokens a word is merged with a heap.
constexpr std::size_t kShortWord = 48;

std::uint64_t pair_of(std::uint32_t left, std::uint32_t right) { return std::uint64_t{left} << 32 | right; }

std::size_t slot_of(std::uint64_t pair, std::size_t slots) {
  return static_cast<std::size_t>(pair * 0x9E3779B97F4A7C15u >> 32) & (slots - 1);  // Fibonacci hashing (Knuth, 6.4)
}

}  // namespace

Bpe::Bpe(const Tokens& vocabulary, const Merges& merges, const BpeOptions& options) : options_(options) {
  std::uint32_t last = 0;
  for (const auto& [token, id] : vocabulary) tokens_.emplace(token, id), last = std::max(last, id);
  lengths_.resize(std::size_t{last} + 1);
  for (const auto& [token, id] : vocabulary) lengths_[id] = static_cast<std::uint32_t>(token.size());
  for (int byte = 0; byte < 256; ++byte) {
    const std::string name =
        options.by_bytes ? std::string(1, static_cast<char>(byte)) : fmt::format("<0x{:02X}>", byte);
    bytes_[static_cast<std::size_t>(byte)] = find(name);
    if (options.by_bytes && options.byte_fallback && !find(name)) {
      throw UsageError("tokenizer",
                       fmt::format("model.byte_fallback: expected false, as model.vocab has no token for the byte "
                                   "{:#04x}, found true",
                                   byte));
    }
  }
  merges_.resize(std::bit_ceil(std::max<std::size_t>(16, 2 * merges.size())), {kNone, {}});
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    const auto token = [&](const std::string& name) {
      const auto id = find(name);
      if (id) return *id;
      throw DataError("tokenizer",
                      fmt::format("model.merges[{}]: expected tokens of model.vocab, found \"{}\"", rank, name));
    };
    const std::uint32_t first = token(left), second = token(right);
    add_merge(first, second, {static_cast<std::uint32_t>(rank), token(left + right)});
  }
  if (options.by_bytes) return;
  const auto has_token = [](const auto& id) { return id.has_value(); };
  const bool has_all_bytes = std::ranges::all_of(bytes_, has_token);
  const bool bytes_pass_unknown = options.byte_fallback && std::ranges::any_of(bytes_, has_token);
  const bool bytes_merge = options.byte_fallback && std::ranges::any_of(merges, [](const auto& merge) {
                             return byte_of_token(merge.first) || byte_of_token(merge.second);
                           });
  can_be_cut_ = !bytes_merge && ((options.byte_fallback && has_all_bytes) ||
                                 (options.unknown && !options.fuse_unknown && !bytes_pass_unknown));
  for (const auto& [token, id] : vocabulary) {
    char32_t before = 0;
    for (std::string_view rest = token; !rest.empty();) {
      const std::size_t length = std::max<std::size_t>(1, io::utf8_length(rest));
      const char32_t character = io::utf8_character(rest, length);
      if (rest.size() < token.size()) neighbours_.push_back(pair_of(before, character));
      before = character;
      rest.remove_prefix(length);
    }
  }
  std::ranges::sort(neighbours_);
  neighbours_.erase(std::unique(neighbours_.begin(), neighbours_.end()), neighbours_.end());
}

// If a pair has two merges, the later one counts, as in the tokenizers package.
void Bpe::add_merge(std::uint32_t left, std::uint32_t right, Merge merge) {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t at = slot_of(pair, merges_.size());
  while (merges_[at].first != kNone && merges_[at].first != pair) at = (at + 1) & (merges_.size() - 1);
  merges_[at] = {pair, merge};
}

const Bpe::Merge* Bpe::find_merge(std::uint32_t left, std::uint32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t at = slot_of(pair, merges_.size());; at = (at + 1) & (merges_.size() - 1)) {
    if (merges_[at].first == pair) return &merges_[at].second;
    if (merges_[at].first == kNone) return nullptr;
  }
}

std::optional<std::uint32_t> Bpe::find(std::string_view token) const {
  const auto found = tokens_.find(std::string(token));
  return found == tokens_.end() ? std::nullopt : std::optional(found->second);
}

bool Bpe::may_cut(char32_t before, char32_t after) const {
  return !std::ranges::binary_search(neighbours_, pair_of(before, after));
}

void Bpe::encode(std::string_view word, std::vector<std::uint32_t>& ids) const {
  if (options_.ignore_merges) {
    if (const auto whole = find(word)) return ids.push_back(*whole);
  }
  const std::size_t begin = ids.size();
  add_smallest(word, ids, nullptr);
  ids.size() - begin <= kShortWord ? merge_short(ids, begin) : merge_long(ids, begin);
}

// A merged token's text is that of the smallest tokens in it, so their lengths tell how many it took.
TokenRange Bpe::token_at(std::string_view word, std::size_t position) const {
  if (options_.ignore_merges && find(word)) return {0, 1};
  std::vector<std::uint32_t> ids, smallest;
  std::vector<ByteRange> ranges;
  encode(word, ids);
  add_smallest(word, smallest, &ranges);
  std::size_t token = 0, begin = 0;
  std::optional<std::size_t> behind;  // the first token that begins behind the position
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < smallest.size() && token < ids.size(); ++i) {
    if (length == 0) begin = ranges[i].begin;
    length += lengths_[smallest[i]];
    if (length < lengths_[ids[token]]) continue;
    if (begin <= position && position < ranges[i].end) return {token, token + 1};
    if (position < begin && !behind) behind = token;
    ++token, length = 0;
  }
  return {behind.value_or(token), behind.value_or(token)};
}

void Bpe::add_smallest(std::string_view word, std::vector<std::uint32_t>& ids, std::vector<ByteRange>* ranges) const {
  std::size_t begin = 0;  // of a character
  const auto add = [&](std::uint32_t id, std::size_t from, std::size_t bytes) {
    ids.push_back(id);
    if (ranges != nullptr) ranges->push_back({from, from + bytes});
  };
  std::optional<ByteRange> unknown;  // a character without a token, which waits as in the tokenizers package
  const auto add_unknown = [&] {
    if (unknown) add(*options_.unknown, unknown->begin, unknown->end - unknown->begin);
    unknown.reset();
  };
  while (begin < word.size()) {
    const std::string_view rest = word.substr(begin);
    const std::size_t length = options_.by_bytes ? 1 : std::max<std::size_t>(1, io::utf8_length(rest));
    const std::string_view character = rest.substr(0, length);
    const auto byte = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
    if (const auto id = options_.by_bytes ? byte(character[0]) : find(character)) {
      add_unknown();
      add(*id, begin, character.size());
    } else if (options_.byte_fallback && std::ranges::all_of(character, [&](char c) { return byte(c).has_value(); })) {
      for (std::size_t i = 0; i < character.size(); ++i) add(*byte(character[i]), begin + i, 1);
    } else if (options_.unknown) {
      if (!options_.fuse_unknown) add_unknown();
      unknown = {unknown ? unknown->begin : begin, begin + character.size()};
    }
    begin += character.size();
  }
  add_unknown();
}

void Bpe::merge_short(std::vector<std::uint32_t>& ids, std::size_t begin) const {
  while (ids.size() - begin > 1) {
    const Merge* best = nullptr;
    std::size_t at = 0;
    for (std::size_t i = begin; i + 1 < ids.size(); ++i) {
      const Merge* const merge = find_merge(ids[i], ids[i + 1]);
      if (merge != nullptr && (best == nullptr || merge->rank < best->rank)) best = merge, at = i;
    }
    if (best == nullptr) return;
    ids[at] = best->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// O(n log n): a heap of the pairs that may be merged, by rank and range. A pair is looked up again when it comes up,
// because its tokens may have been merged with others.
void Bpe::merge_long(std::vector<std::uint32_t>& ids, std::size_t begin) const {
  if (ids.size() - begin > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw DataError("tokenizer",
                    fmt::format("text: expected words of fewer than 2^31 tokens, found one of {}", ids.size() - begin));
  }
  const auto count = static_cast<std::int32_t>(ids.size() - begin);
  std::vector<Symbol> symbols(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) {
    symbols[static_cast<std::size_t>(i)] = {ids[begin + static_cast<std::size_t>(i)], i - 1,
                                            i + 1 < count ? i + 1 : -1};
  }
  constexpr std::uint32_t kGone = ~std::uint32_t{0};
  const auto symbol = [&](std::int32_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };
  using Candidate = std::pair<std::uint32_t, std::int32_t>;  // rank, range of the left token
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  const auto merge_at = [&](std::int32_t left) -> const Merge* {
    const std::int32_t right = symbol(left).next;
    return right < 0 ? nullptr : find_merge(symbol(left).id, symbol(right).id);
  };
  const auto consider = [&](std::int32_t left) {
    if (left < 0) return;
    if (const Merge* const merge = merge_at(left)) heap.emplace(merge->rank, left);
  };
  for (std::int32_t i = 0; i < count; ++i) consider(i);
  while (!heap.empty()) {
    const auto [rank, left] = heap.top();
    heap.pop();
    if (symbol(left).id == kGone) continue;
    const Merge* const merge = merge_at(left);
    if (merge == nullptr || merge->rank != rank) continue;
    const std::int32_t right = symbol(left).next, after = symbol(right).next;
    symbol(left).id = merge->result, symbol(left).next = after;
    symbol(right).id = kGone;
    if (after >= 0) symbol(after).previous = left;
    consider(symbol(left).previous);
    consider(left);
  }
  ids.resize(begin);
  for (std::int32_t i = 0; i >= 0; i = symbol(i).next) ids.push_back(symbol(i).id);
}

}  // namespace lt::tokenizer
