// Normalizes text and cuts it split by split.
#include "tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/normalize.h"

namespace lt::tokenizer {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(from, at);
    out += text.substr(at, found == std::string_view::npos ? found : found - at);
    if (found == std::string_view::npos) return out;
    out += to;
    at = found + from.size();
  }
}

}  // namespace

std::string Normalizer::operator()(std::string_view text, bool continues) const {
  std::string out = nfc ? tokenizer::nfc(text) : std::string(text);
  if (!out.empty() && !continues) out.insert(0, prepend);
  return replaced.empty() ? out : replace_all(out, replaced, replacement);
}

std::string PreTokenizer::prepared(std::string text, bool begins_text, bool continues) const {
  if (metaspace) {
    text = replace_all(text, " ", kMetaspace);
    const bool wanted = prepend == Prepend::always || (prepend == Prepend::first && begins_text);
    if (wanted && !continues && !text.starts_with(kMetaspace)) text.insert(0, kMetaspace);
  }
  if (add_prefix_space && !continues && !text.starts_with(' ')) text.insert(0, 1, ' ');
  return text;
}

WordCutter::WordCutter(const PreTokenizer& rules) : splits_(rules.splits) {
  for (const Split& split : splits_) matchers_.emplace_back(split.pattern);
  bool is_first = rules.cuts_text();
  for (; is_first && first_splits_ < splits_.size() && !splits_[first_splits_].is_of_alphabet; ++first_splits_) {
    is_first = splits_[first_splits_].is_of_class;
  }
}

void WordCutter::cut(std::string_view text, std::size_t begin, std::size_t end, std::vector<WordEnd>& ends) {
  cut_by(0, text, begin, end, ends);
}

void WordCutter::cut_by(std::size_t split, std::string_view text, std::size_t begin, std::size_t end,
                        std::vector<WordEnd>& ends) {
  std::size_t at = begin;
  const auto add = [&](std::size_t to, bool is_dropped) {
    if (is_dropped || split + 1 >= first_splits_) {
      ends.push_back({to, is_dropped});
    } else {
      cut_by(split + 1, text.substr(0, to), at, std::min(end, to), ends);
    }
    at = ends.back().end;
  };
  while (at < end) {
    const auto match = matchers_[split].find(text, at);
    const std::size_t next = match ? match->begin : text.size();
    if (at < next) add(next, splits_[split].drops == Split::Drops::others);
    if (at < next || at >= end) return;
    add(match->end, splits_[split].drops == Split::Drops::matches);
  }
}

void WordCutter::cut_word(std::size_t split, std::string_view word, std::vector<WordEnd>& ends) {
  const Split& rule = splits_[split];
  std::string written;
  if (rule.is_of_alphabet) written = written_in_alphabet(word);
  const std::string_view text = rule.is_of_alphabet ? written : word;
  std::size_t at = 0, end = 0;  // in the text, in the word
  const auto add = [&](std::size_t to, bool is_dropped) {
    const auto is_first_byte = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
    const std::string_view piece = text.substr(at, to - at);
    end += rule.is_of_alphabet ? static_cast<std::size_t>(std::ranges::count_if(piece, is_first_byte)) : piece.size();
    ends.push_back({end, is_dropped});
    at = to;
  };
  while (at < text.size()) {
    const auto match = matchers_[split].find(text, at);
    const std::size_t next = match ? match->begin : text.size();
    if (at < next) add(next, rule.drops == Split::Drops::others);
    if (match) add(match->end, rule.drops == Split::Drops::matches);
  }
}

}  // namespace lt::tokenizer
