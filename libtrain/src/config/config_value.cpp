// Reads values of configuration keys from text or TOML, checks them against the key's rule and prints them as TOML.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <type_traits>

#include "config/config_groups.h"
#include "config/config_lora.h"
#include "config/config_schema.h"
#include "config/config_sources.h"
#include "config/config_tables.h"
#include "config/names.h"
#include "io/utf8.h"
#include "libtrain/error.h"

namespace lt::config {
namespace {

// The upper limit of every count. Code that multiplies counts rejects products that overflow 64 bits.
constexpr std::int64_t kMaxCount = std::numeric_limits<std::int32_t>::max();
// A TOML integer has 63 bits.
constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();

template <class Pointer>
using Pointee = std::remove_pointer_t<Pointer>;

template <class T>
constexpr bool is_integer = std::is_same_v<T, Size> || std::is_same_v<T, std::uint64_t>;
template <class T>
std::int64_t highest_of(const Rule& rule) {
  constexpr std::int64_t kHighest = std::is_same_v<T, Size> ? kMaxCount : kMaxSeed;
  return rule.high < static_cast<double>(kHighest) ? static_cast<std::int64_t>(std::max(rule.high, -1.0)) : kHighest;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04X}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml(bool value) { return value ? "true" : "false"; }
std::string toml(std::int64_t value) { return std::to_string(value); }
std::string toml(std::uint64_t value) { return std::to_string(value); }
// The shortest digits that read back as the same number, in a form that TOML takes as a float.
template <class Real>
std::string toml_of_real(Real value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}
std::string toml(float value) { return toml_of_real(value); }
std::string toml(double value) { return toml_of_real(value); }
std::string toml(const std::string& value) { return in_quotes(value); }
template <HasNames T>
std::string toml(const T& value) {
  return in_quotes(name_of(value));
}
std::string toml(const std::vector<std::string>& values) {
  std::string text = "[";
  for (const std::string& value : values) text += (text.size() > 1 ? ", " : "") + in_quotes(value);
  return text + "]";
}
std::string toml(const std::vector<OptimGroupConfig>& groups) {
  std::string text = "[";
  for (const OptimGroupConfig& group : groups) {
    const std::string decay =
        group.weight_decay < 0 ? "" : fmt::format(", weight_decay = {}", toml(group.weight_decay));
    const std::string optimizer = group.optimizer.empty() ? "" : ", optimizer = " + toml(group.optimizer);
    text += fmt::format("{}{{match = {}, lr_scale = {}{}{}}}", text.size() > 1 ? ", " : "", toml(group.match),
                        toml(group.lr_scale), decay, optimizer);
  }
  return text + "]";
}
std::string toml(const std::vector<DataSource>& sources) {
  std::string text = "[";
  for (const DataSource& source : sources) {
    text += fmt::format("{}{{files = {}, weight = {}}}", text.size() > 1 ? ", " : "", toml(source.files),
                        toml(source.weight));
  }
  return text + "]";
}
std::string toml(const nn::Lora& lora) {
  if (lora == nn::Lora()) return "{}";
  const std::string alpha = lora.alpha == 0 ? "" : ", alpha = " + toml(lora.alpha);
  const std::string targets = lora.targets.empty() ? "" : ", targets = " + toml(lora.targets);
  return fmt::format("{{rank = {}{}{}}}", lora.rank, alpha, targets);
}
std::string toml(const Table&) { return "a table"; }
std::string toml(const std::vector<Table>&) { return "tables"; }
std::string toml(const Text& value) { return in_quotes(value.text); }
std::string toml(const Unsupported& value) { return value.text; }

// Cuts a text at its commas, except for those in the name of a file that exists. The longest name counts.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  const auto next_comma = [&](std::size_t from) { return std::min(text.find(',', from), text.size()); };
  for (std::size_t begin = 0, end = 0; !text.empty() && end < text.size(); begin = end + 1) {
    end = next_comma(begin);
    for (std::size_t longer = end; longer < text.size() && longer - begin < PATH_MAX;) {
      longer = next_comma(longer + 1);
      if (::access(text.substr(begin, longer - begin).c_str(), F_OK) == 0) end = longer;
    }
    parts.push_back(text.substr(begin, end - begin));
  }
  return parts;
}

// Returns nullopt if the value's type or text does not fit T.
template <class T>
std::optional<T> convert(const Rule& rule, const Value& value) {
  const auto* text = std::get_if<Text>(&value);
  const auto* integer = std::get_if<std::int64_t>(&value);
  if constexpr (std::is_same_v<T, bool>) {
    if (const auto* given = std::get_if<bool>(&value)) return *given;
    if (text != nullptr && (text->text == "true" || text->text == "false")) return text->text == "true";
  } else if constexpr (HasNames<T>) {
    if (const auto* given = std::get_if<bool>(&value)) return value_named<T>(*given ? "true" : "false");
    const auto* string = std::get_if<std::string>(&value);
    if (text != nullptr || string != nullptr) return value_named<T>(text != nullptr ? text->text : *string);
  } else if constexpr (is_integer<T>) {
    const auto given = text != nullptr      ? number_in<std::int64_t>(text->text)
                       : integer != nullptr ? std::optional(*integer)
                                            : std::nullopt;
    if (given && *given >= rule.low && *given <= highest_of<T>(rule)) return static_cast<T>(*given);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (text != nullptr) return number_in<T>(text->text);
    if (integer != nullptr) return static_cast<T>(*integer);
    if (const auto* given = std::get_if<double>(&value)) return static_cast<T>(*given);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (text != nullptr) return text->text;
    if (const auto* given = std::get_if<std::string>(&value)) return *given;
  } else {
    if (text != nullptr) return split(text->text);
    if (const auto* given = std::get_if<std::string>(&value)) return T{*given};
    if (const auto* given = std::get_if<std::vector<std::string>>(&value)) return *given;
  }
  return std::nullopt;
}

bool satisfies(const Rule&, bool) { return true; }
template <HasNames T>
bool satisfies(const Rule&, const T&) {
  return true;
}
bool satisfies(const Rule&, std::int64_t) { return true; }
bool satisfies(const Rule&, std::uint64_t) { return true; }
template <std::floating_point Real>
bool satisfies(const Rule& rule, Real value) {
  return std::isfinite(value) && (rule.without_low ? value > rule.low : value >= rule.low) &&
         (rule.without_high ? value < rule.high : value <= rule.high);
}
bool satisfies(const Rule& rule, const std::string& value) {
  if (value.empty()) return rule.may_be_empty;
  const bool has_prefix = !rule.prefix.empty() && value.starts_with(rule.prefix);
  return io::is_utf8(value) && (has_prefix || rule.choices.empty() ||
                                std::find(rule.choices.begin(), rule.choices.end(), value) != rule.choices.end());
}
bool satisfies(const Rule&, const std::vector<std::string>& values) {
  return std::all_of(values.begin(), values.end(), [](const std::string& v) { return !v.empty() && io::is_utf8(v); });
}

template <class T>
std::string expected(const Rule& rule) {
  if constexpr (std::is_same_v<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_same_v<T, Size>) {
    return fmt::format("an integer from {} to {}", rule.low, highest_of<T>(rule));
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return fmt::format("an integer from 0 to {}", kMaxSeed);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isinf(rule.low) && std::isinf(rule.high)) return "a number";
    if (std::isinf(rule.low))
      return fmt::format("a number {} {}", rule.without_high ? "below" : "of at most", rule.high);
    if (std::isinf(rule.high))
      return fmt::format("a number {} {}", rule.without_low ? "above" : "of at least", rule.low);
    return fmt::format("a number in {}{}, {}{}", rule.without_low ? '(' : '[', rule.low, rule.high,
                       rule.without_high ? ')' : ']');
  } else if constexpr (std::is_same_v<T, std::string> || HasNames<T>) {
    return rule.choices.empty() ? std::string("text") : fmt::format("one of {}", fmt::join(rule.choices, ", "));
  } else {
    return "text or a list of texts";
  }
}

// "at least" reads better than the whole range, unless the value exceeds the upper end.
template <class T>
std::string expected(const Rule& rule, const Value& value) {
  if constexpr (std::is_same_v<T, Size>) {
    const auto* text = std::get_if<Text>(&value);
    const auto* integer = std::get_if<std::int64_t>(&value);
    const auto given = text != nullptr      ? number_in<double>(text->text)
                       : integer != nullptr ? std::optional(1.0 * *integer)
                                            : 0;
    if (highest_of<T>(rule) == kMaxCount && given.value_or(0) <= kMaxCount) {
      return fmt::format("an integer of at least {}", rule.low);
    }
  }
  if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::vector<std::string>> || HasNames<T>) {
    const auto* text = std::get_if<Text>(&value);
    if (text != nullptr && !io::is_utf8(text->text)) return "text in UTF-8";
  }
  if constexpr (std::is_same_v<T, std::string>) {
    const auto* text = std::get_if<Text>(&value);
    const auto* string = std::get_if<std::string>(&value);
    const bool is_empty = text != nullptr ? text->text.empty() : string != nullptr && string->empty();
    if (is_empty && rule.choices.empty()) return "text that is not empty";
  }
  return expected<T>(rule);
}

// A value as a layer would give it.
template <class T>
Value as_given(const T& value) {
  if constexpr (std::is_same_v<T, Strategy>) {
    return name_of(value).empty() ? std::string(value.name) + " with other placements" : name_of(value);
  } else if constexpr (std::is_same_v<T, DType>) {
    return std::string(dtype_name(value));
  } else if constexpr (HasNames<T>) {
    return name_of(value);
  } else if constexpr (is_integer<T>) {
    return static_cast<std::int64_t>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else {
    return value;
  }
}
Value as_given(const std::vector<OptimGroupConfig>& groups) {
  std::vector<Table> tables;
  for (const OptimGroupConfig& group : groups) {
    Table& table = tables.emplace_back(Table{{"match", group.match}, {"lr_scale", group.lr_scale}});
    if (!(group.weight_decay < 0)) table.emplace_back("weight_decay", group.weight_decay);
    if (!group.optimizer.empty()) table.emplace_back("optimizer", group.optimizer);
  }
  return tables;
}
Value as_given(const std::vector<DataSource>& sources) {
  std::vector<Table> tables;
  for (const DataSource& source : sources) tables.push_back({{"files", source.files}, {"weight", source.weight}});
  return tables;
}
Value as_given(const nn::Lora& lora) {
  Table table;
  if (lora == nn::Lora()) return table;
  table.emplace_back("rank", lora.rank);
  if (lora.alpha != 0) table.emplace_back("alpha", lora.alpha);
  if (!lora.targets.empty()) table.emplace_back("targets", lora.targets);
  return table;
}

}  // namespace

Value value_of(const ModelValue& value) {
  return std::visit([](const auto& given) { return Value(given); }, value);
}

Value value_of(const Config& config, const Key& key) {
  // The const_cast is safe, here and below: the accessor only takes an address.
  return std::visit([](const auto* field) { return as_given(*field); }, key.field(const_cast<Config&>(config)));
}

void assign(Config& config, const Key& key, const Value& value) {
  std::visit(
      [&](auto* field) {
        using T = Pointee<decltype(field)>;
        if constexpr (std::is_same_v<T, std::vector<OptimGroupConfig>>) {
          *field = groups_from(value, key.full_name());
        } else if constexpr (std::is_same_v<T, std::vector<DataSource>>) {
          *field = sources_from(value, key.full_name());
        } else if constexpr (std::is_same_v<T, nn::Lora>) {
          *field = lora_from(value, key.full_name());
        } else {
          auto given = convert<T>(key.rule, value);
          if (!given || !satisfies(key.rule, *given)) {
            throw UsageError("config", key.full_name(), expected<T>(key.rule, value),
                             std::visit([](const auto& v) { return toml(v); }, value));
          }
          *field = std::move(*given);
        }
      },
      key.field(config));
}

std::string toml_text(const Config& config, const Key& key) {
  return std::visit([](const auto* field) { return toml(*field); }, key.field(const_cast<Config&>(config)));
}

std::vector<ConfigKey> fields_of(const Config& config, const Key& key) {
  const bool is_lora = std::holds_alternative<nn::Lora*>(key.field(const_cast<Config&>(config)));
  return is_lora ? lora_fields(key.full_name()) : std::vector<ConfigKey>();
}

void assign_field(Config& config, const Key& key, const std::string& field, const std::string& text) {
  set_lora_field(*std::get<nn::Lora*>(key.field(config)), key.full_name(), field, text);
}

void require_complete(const Config& config, const Key& key) {
  require_rank(*std::get<nn::Lora*>(key.field(const_cast<Config&>(config))), key.full_name());
}

}  // namespace lt::config
