// Regular expressions by PCRE2, compiled to machine code if PCRE2 supports that. No other file includes PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <cstdint>

#include "libtrain/error.h"
#include "tokenizer/white_space.h"

namespace lt::tokenizer {
namespace {

// White_Space as the inside of a class. PCRE2's own \s has U+180E too, which lost the property in Unicode 6.3.
const std::string& spaces() {
  static const std::string text = [] {
    std::string ranges;
    for (const auto& [first, last] : kWhiteSpace) {
      ranges +=
          fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last));
    }
    return ranges;
  }();
  return text;
}

// Steps of one match. The patterns of tokenizers need a few for each byte; others can take exponential time.
constexpr std::uint32_t kMatchLimit = 100'000'000;
constexpr std::size_t kStackBytes = std::size_t{1} << 20;

[[noreturn]] void refuse(const std::string& pattern, const std::string& found) {
  throw UsageError("tokenizer", fmt::format("pattern \"{}\": expected what has one meaning in all syntaxes of regular "
                                            "expressions, found {}",
                                            pattern, found));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Refuses an interval, which begins at `at`, where Oniguruma, as Ruby, reads it differently: it repeats {1,3}+ and
// makes {2}? optional, and {,3} begins at 0.
void check_interval(const std::string& pattern, std::size_t at) {
  const auto digits = [&](std::size_t i) {
    while (i < pattern.size() && is_digit(pattern[i])) ++i;
    return i;
  };
  const std::size_t low = digits(at + 1);
  const bool has_comma = low < pattern.size() && pattern[low] == ',';
  const std::size_t close = has_comma ? digits(low + 1) : low;
  if (close >= pattern.size() || pattern[close] != '}' || close == at + 1) return;  // literal
  const char after = close + 1 < pattern.size() ? pattern[close + 1] : '\0';
  const bool begins_at_0 = low == at + 1, repeats = after == '+', is_optional = after == '?' && !has_comma;
  if (begins_at_0 || repeats || is_optional) {
    refuse(pattern, pattern.substr(at, close - at + (repeats || is_optional ? 2 : 1)));
  }
}

// Refuses the option m of a group that begins at `at`: a full stop then matches a line feed in Oniguruma alone.
void check_options(const std::string& pattern, std::size_t at) {
  if (pattern.substr(at, 2) != "(?") return;
  const std::size_t end = pattern.find_first_not_of("imx-", at + 2);
  if (end == std::string::npos || (pattern[end] != ':' && pattern[end] != ')')) return;
  if (pattern.substr(at, end - at).find('m') != std::string::npos) refuse(pattern, pattern.substr(at, end + 1 - at));
}

// Writes \s and \S out. Refuses what Oniguruma, which other tokenizers use, reads in another way than PCRE2.
std::string with_spaces(const std::string& pattern) {
  std::string written;
  bool in_class = false, in_inner_class = false;
  const auto has_dash = [&](std::size_t at) { return at < pattern.size() && pattern[at] == '-'; };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      const bool is_letter = (escaped >= 'a' && escaped <= 'z') || (escaped >= 'A' && escaped <= 'Z');
      if (escaped == 's') {
        written += in_class ? spaces() : "[" + spaces() + "]";
      } else if (escaped == 'S' && !in_class) {
        written += "[^" + spaces() + "]";
      } else if (!is_letter || std::string_view("dpPrntx").find(escaped) != std::string_view::npos) {
        written += {c, escaped};
        const bool has_braces = std::string_view("pPx").find(escaped) != std::string_view::npos;
        if (has_braces && pattern.substr(i + 1, 1) == "{") written += pattern[++i];  // no interval
      } else {
        refuse(pattern, fmt::format("\\{}{}", escaped, in_class ? " in a class" : ""));
      }
      continue;
    }
    if (in_class && c == '[') {
      const bool is_plain = i + 1 < pattern.size() && std::string_view("^:]").find(pattern[i + 1]) == std::string::npos;
      if (in_inner_class || !is_plain || has_dash(i - 1) || has_dash(i + 1))
        refuse(pattern, "a negated, deeper or ranged class in a class");
      in_inner_class = true;  // Oniguruma joins the two
      continue;
    }
    if (in_inner_class && c == ']') {
      if (has_dash(i - 1) || has_dash(i + 1)) refuse(pattern, "a negated, deeper or ranged class in a class");
      in_inner_class = false;
      continue;
    }
    if (in_class && pattern.substr(i, 2) == "&&") refuse(pattern, "&& in a class");
    if (!in_class && (c == '^' || c == '$')) refuse(pattern, std::string(1, c));
    if (!in_class && c == '{') check_interval(pattern, i);
    if (!in_class && c == '(') check_options(pattern, i);
    if (c == '[') {
      in_class = true;
      written += c;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') written += pattern[++i];
      continue;
    }
    if (c == ']') in_class = false;
    written += c;
  }
  return written;
}

std::string reason_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Regex::Code {
  std::string pattern;
  pcre2_code* code;

  explicit Code(const std::string& given) : pattern(given) {
    const std::string written = with_spaces(given);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(written.data()), written.size(), PCRE2_UTF | PCRE2_UCP, &error,
                         &offset, nullptr);
    if (code == nullptr) {
      throw UsageError("tokenizer", fmt::format("pattern \"{}\": expected a regular expression, found at offset {}: {}",
                                                given, offset, reason_of(error)));
    }
    // An empty match ends a word in Oniguruma; here it is none.
    if (info(PCRE2_INFO_MATCHEMPTY) != 0) {
      pcre2_code_free(code);
      refuse(given, "one that can match no text");
    }
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it matching is slower, and the same
  }
  ~Code() { pcre2_code_free(code); }
  std::uint32_t info(std::uint32_t what) const {
    std::uint32_t value = 0;
    pcre2_pattern_info(code, what, &value);
    return value;
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
};

Regex::Regex(const std::string& pattern) : code_(std::make_shared<const Code>(pattern)) {}
const std::string& Regex::pattern() const { return code_->pattern; }
bool Regex::looks_behind() const { return code_->info(PCRE2_INFO_MAXLOOKBEHIND) > 0; }

struct Regex::Matcher::State {
  std::shared_ptr<const Code> code;
  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;

  explicit State(std::shared_ptr<const Code> of)
      : code(std::move(of)),
        data(pcre2_match_data_create_from_pattern(code->code, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kStackBytes / 16, kStackBytes, nullptr)) {
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_match_limit(context, kMatchLimit);
  }
  ~State() { pcre2_match_data_free(data), pcre2_match_context_free(context), pcre2_jit_stack_free(stack); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Regex::Matcher::Matcher(const Regex& regex) : state_(std::make_shared<State>(regex.code_)) {}

std::optional<RegexMatch> Regex::Matcher::find(std::string_view text, std::size_t from) {
  const int found = pcre2_match(state_->code->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, state_->data, state_->context);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (found < 0) {
    throw DataError("tokenizer", fmt::format("pattern \"{}\": cannot be matched at offset {}: {}",
                                             state_->code->pattern, from, reason_of(found)));
  }
  const PCRE2_SIZE* const range = pcre2_get_ovector_pointer(state_->data);
  return RegexMatch{range[0], range[1]};
}

}  // namespace lt::tokenizer
