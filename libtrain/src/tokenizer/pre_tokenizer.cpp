// Normalizes and cuts text.
#include "tokenizer/pre_tokenizer.h"

#include "tokenizer/normalize.h"

namespace lt {
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
  std::string out = nfc ? lt::nfc(text) : std::string(text);
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

WordCutter::WordCutter(const PreTokenizer& rules) {
  for (const Regex& split : rules.splits) matchers_.emplace_back(split);
}

void WordCutter::cut(std::string_view text, std::size_t begin, std::size_t end, std::vector<std::size_t>& ends) {
  cut_by(0, text, begin, end, ends);
}

void WordCutter::cut_by(std::size_t split, std::string_view text, std::size_t begin, std::size_t end,
                        std::vector<std::size_t>& ends) {
  for (std::size_t at = begin; at < end;) {
    const auto match = matchers_[split].find(text, at);
    if (!match || match->begin > at) ends.push_back(match ? match->begin : text.size());
    if (!match) return;
    if (match->begin >= end) return;
    ends.push_back(match->end);
    at = match->end;
  }
}

}  // namespace lt
