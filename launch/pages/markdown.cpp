// Writes the tables of the reference pages from the program's own tables: commands, configuration keys, families,
// presets, environment variables and exit codes.
#include "launch/pages/markdown.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>

#include "config/config_schema.h"
#include "config/names.h"
#include "config/variables.h"
#include "launch/exit_codes.h"
#include "libtrain/error.h"
#include "libtrain/nn/models.h"
#include "nn/model_family.h"

namespace lt::launch {
namespace {

// Text of a cell. Signs of code keep what is between them, but a | would end the cell even there.
std::string cell(std::string_view text) {
  std::string made;
  bool is_code = false;
  for (const char c : text) {
    is_code = is_code != (c == '`');
    if (c == '|' || (!is_code && (c == '<' || c == '*'))) made += '\\';
    made += c;
  }
  return made;
}

std::string code(std::string_view text) { return text.empty() ? "" : cell(fmt::format("`{}`", text)); }

std::string sentence(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') text.front() = static_cast<char>(text.front() - 32);
  return text + ".";
}

// A table with these columns, and rows of as many cells. The cells must be escaped.
class TableText {
 public:
  explicit TableText(const std::vector<std::string>& columns) {
    add(columns);
    text_ += "|";
    for (std::size_t i = 0; i < columns.size(); ++i) text_ += "---|";
    text_ += "\n";
  }
  void add(const std::vector<std::string>& cells) {
    text_ += "|";
    for (const std::string& each : cells) text_ += each.empty() ? " |" : " " + each + " |";
    text_ += "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// The text after an option's name in --help, in its parts.
struct OptionValue {
  std::string argument, fallback;
  bool is_required = false;
};

OptionValue parts_of(std::string text) {
  constexpr std::string_view kRequired = "(required)";
  OptionValue made;
  if (text.ends_with(kRequired)) {
    made.is_required = true;
    text.resize(text.size() - kRequired.size());
  }
  if (const std::size_t equals = text.find("= "); equals != std::string::npos) {
    made.fallback = text.substr(equals + 2);
    text.resize(equals);
  }
  while (text.ends_with(' ')) text.pop_back();
  made.argument = text;
  return made;
}

bool is_common(const PageOption& option) {
  const std::string& name = option.names.back();
  return name == "--help" || name == "--config" || name == "--print-config";
}

bool takes_config(const PageCommand& command) {
  return std::ranges::any_of(command.options,
                             [](const PageOption& option) { return option.names.back() == "--print-config"; });
}

// The options that exclude this one. Each pair is stated once, by the option that excludes more others.
std::vector<std::string> stated_excludes(const PageOption& option, const PageCommand& command) {
  std::vector<std::string> stated;
  for (const PageOption& other : command.options) {
    const bool is_excluded = std::ranges::find(option.excludes, other.names.back()) != option.excludes.end();
    const std::size_t own = option.excludes.size(), others = other.excludes.size();
    if (is_excluded && (own > others || (own == others && &option < &other))) stated.push_back(other.names.back());
  }
  return stated;
}

std::string options_of(const PageCommand& command) {
  TableText table({"option", "default", "meaning"});
  int rows = 0;
  const auto add = [&](const PageOption& option, const std::string& names) {
    const OptionValue value = parts_of(option.value);
    const auto excludes = stated_excludes(option, command);
    const std::string without = excludes.empty() ? "" : fmt::format("; not with `{}`", fmt::join(excludes, "`, `"));
    table.add({names, value.is_required ? "required" : code(value.fallback), cell(option.help) + without});
    ++rows;
  };
  for (const PageOption& option : command.positionals) {
    const OptionValue value = parts_of(option.value);
    std::string names = code(value.argument.empty() ? option.names.front() : value.argument);
    for (const PageOption& other : command.options) {
      if (other.argument == option.names.front()) names += " or " + code(other.names.back() + " " + other.argument);
    }
    add(option, names);
  }
  for (const PageOption& option : command.options) {
    if (option.is_key || is_common(option) || !option.argument.empty()) continue;
    const OptionValue value = parts_of(option.value);
    std::string names;
    for (const std::string& name : option.names) {
      const bool is_last = name == option.names.back();
      names +=
          (names.empty() ? "" : ", ") + code(is_last && !value.argument.empty() ? name + " " + value.argument : name);
    }
    add(option, names);
  }
  return rows == 0 ? "" : "\n" + table.text();
}

std::string commands_block(const PageCommand& root) {
  TableText summary({"command", "does"});
  std::string text;
  for (const PageCommand* command : all_commands(root)) {
    if (command == &root) continue;
    const bool is_first = command->path.find(' ') == std::string::npos, has_config = takes_config(*command);
    if (is_first) summary.add({fmt::format("[`{0}`](#ltrain-{0})", command->path), cell(command->help)});
    text += fmt::format("\n{} ltrain {}\n", is_first ? "##" : "###", command->path);
    if (!is_first) text += "\n" + sentence(command->help) + "\n";
    if (has_config) text += fmt::format("{}Takes the [configuration](configuration.md).\n", is_first ? "\n" : "");
    if (command->commands.empty()) text += options_of(*command);
    if (!has_config && !command->footer.empty()) text += "\n" + command->footer + "\n";
  }
  return summary.text() + text;
}

std::string range_of(const config::Rule& rule) {
  const bool has_low = std::isfinite(rule.low), has_high = std::isfinite(rule.high);
  if (has_low && has_high) {
    return fmt::format(" in {}{:g}, {:g}{}", rule.without_low ? '(' : '[', rule.low, rule.high,
                       rule.without_high ? ')' : ']');
  }
  if (has_low && rule.low == 0) return rule.without_low ? " above 0" : "";
  return has_low ? fmt::format(" from {:g}", rule.low) : " of any sign";
}

// The values that a key takes.
std::string values_of(const config::Key& key, Config& config) {
  if (!key.rule.choices.empty()) return fmt::format("{}", fmt::join(key.rule.choices, ", "));
  return std::visit(
      [&](auto* field) -> std::string {
        using T = std::remove_pointer_t<decltype(field)>;
        if constexpr (std::is_same_v<T, bool>) return "true, false";
        if constexpr (std::is_same_v<T, Size> || std::is_same_v<T, std::uint64_t>) {
          return "integer" + range_of(key.rule);
        }
        if constexpr (std::is_floating_point_v<T>) return "number" + range_of(key.rule);
        if constexpr (std::is_same_v<T, std::string>) return "text";
        if constexpr (std::is_same_v<T, std::vector<std::string>>) return "list";
        if constexpr (std::is_same_v<T, nn::Lora>) return "table";
        return "tables";
      },
      key.field(config));
}

std::vector<PageBlock> key_blocks() {
  Config config;
  std::vector<PageBlock> blocks;
  const std::vector<config::Key> keys = config::schema(*config.models);
  for (auto first = keys.begin(); first != keys.end();) {
    const auto end = std::find_if(first, keys.end(), [&](const auto& key) { return key.section != first->section; });
    TableText table({"key", "default", "values", "meaning"});
    const std::string section(first->section);
    for (; first != end; ++first) {
      table.add(
          {code(first->name), code(config::toml_text(config, *first)), values_of(*first, config), cell(first->help)});
      for (const ConfigKey& field : config::fields_of(config, *first)) {
        table.add({code(field.name.substr(section.size() + 1)), field.fallback, "", cell(field.help)});
      }
    }
    blocks.push_back({"configuration.md", section, table.text()});
  }
  return blocks;
}

std::string families_block() {
  TableText table(
      {"family", "positions", "norm_eps", "rope_base", "qk_norm", "qkv_bias", "tied", "ffn", "Hugging Face class"});
  const auto yes = [](bool is_so) { return is_so ? "yes" : "no"; };
  for (const nn::ModelFamily* family : nn::families()) {
    const nn::TransformerSpec& spec = family->defaults;
    table.add({code(family->name), family->rotary ? "rotary" : "learned", fmt::format("{}", spec.norm_eps),
               family->rotary ? fmt::format("{}", spec.rope_base) : "", yes(spec.has_qk_norm()),
               yes(spec.has_qkv_bias()), yes(spec.tied()), family->gated_ffn ? "8/3 width" : "4 width",
               code(family->hf.architecture)});
  }
  return table.text();
}

std::string in_millions(Size count) {
  const auto millions = static_cast<double>(count) / 1e6;
  return millions < 1000 ? fmt::format("{:.4g}M", millions) : fmt::format("{:.4g}B", millions / 1000);
}

std::string presets_block() {
  const std::vector<std::string_view> shape = {"layers", "heads", "kv_heads", "width", "ffn", "vocab", "max_seq"};
  std::vector<std::string> columns = {"preset", "family", "parameters"};
  columns.insert(columns.end(), shape.begin(), shape.end());
  columns.insert(columns.end(), {"tied", "other"});
  TableText table(columns);
  for (const nn::Preset& preset : nn::presets()) {
    const nn::TransformerSpec complete = nn::with_defaults(preset.spec);
    std::vector<std::string> row = {code(preset.name), preset.spec.family,
                                    in_millions(nn::make_transformer(preset.spec)->parameter_count())};
    std::string others;
    const auto is_shape = [&](std::string_view name) { return std::ranges::find(shape, name) != shape.end(); };
    for (const nn::SpecField& field : nn::spec_fields()) {
      const auto text = [&](const nn::TransformerSpec& spec) {
        return std::visit(
            [&](auto member) -> std::string {
              using T = std::remove_cvref_t<decltype(spec.*member)>;
              if constexpr (std::is_same_v<T, nn::Lora>)
                return "adapters";
              else if constexpr (std::is_same_v<T, std::optional<bool>>)
                return spec.*member ? "true" : "false";
              else
                return fmt::format("{}", spec.*member);
            },
            field.member);
      };
      if (is_shape(field.name)) row.push_back(text(complete));
      if (is_shape(field.name) || field.name == "family" || field.name == "tie_embeddings") continue;
      if (nn::is_set(preset.spec, field)) {
        others += fmt::format("{}{} {}", others.empty() ? "" : ", ", field.name, text(preset.spec));
      }
    }
    row.insert(row.end(), {complete.tied() ? "yes" : "no", others});
    table.add(row);
  }
  return table.text();
}

// Variables with the same meaning, one after the other, share a row.
std::string variables_block() {
  TableText table({"variable", "meaning"});
  std::string names;
  for (auto variable = std::begin(config::kVariables); variable != std::end(config::kVariables); ++variable) {
    names += (names.empty() ? "" : ", ") + code(variable->name);
    const auto next = std::next(variable);
    if (next != std::end(config::kVariables) && next->help == variable->help) continue;
    table.add({names, cell(variable->help)});
    names.clear();
  }
  return table.text();
}

std::string exit_codes_block() {
  TableText table({"code", "meaning"});
  for (const ExitCodeText& row : kExitCodes) {
    table.add({std::to_string(row.code), cell(std::string(row.brief) + row.details)});
  }
  return table.text();
}

constexpr std::string_view kBegin = "<!-- generated: ", kBeginEnd = " -->\n", kEnd = "<!-- end -->\n";

}  // namespace

std::vector<PageBlock> page_blocks(const PageCommand& root) {
  std::vector<PageBlock> blocks = key_blocks();
  blocks.push_back({"configuration.md", "families", families_block()});
  blocks.push_back({"configuration.md", "presets", presets_block()});
  blocks.push_back({"configuration.md", "environment variables", variables_block()});
  blocks.push_back({"command-line.md", "commands", commands_block(root)});
  blocks.push_back({"exit-codes.md", "exit codes", exit_codes_block()});
  return blocks;
}

std::string renewed(const std::string& page, const std::string& text, const std::vector<PageBlock>& blocks) {
  std::vector<PageBlock> left;
  std::ranges::copy_if(blocks, std::back_inserter(left), [&](const PageBlock& block) { return block.page == page; });
  std::string made;
  std::size_t at = 0;
  for (std::size_t begin = text.find(kBegin); begin != std::string::npos; begin = text.find(kBegin, at)) {
    const std::size_t name = begin + kBegin.size();
    const std::size_t name_end = text.find(kBeginEnd, name), end = text.find(kEnd, name);
    if (name_end == std::string::npos || end == std::string::npos || name_end > end) {
      throw DataError("pages", page + ": expected <!-- end --> after each <!-- generated: NAME -->, found none");
    }
    const std::string given = text.substr(name, name_end - name);
    const auto block = std::ranges::find(left, given, &PageBlock::name);
    if (block == left.end()) {
      throw DataError("pages", fmt::format("{}: expected each generated block once, got \"{}\"", page, given));
    }
    made += text.substr(at, name_end + kBeginEnd.size() - at) + "\n" + block->text + "\n";
    at = end;
    left.erase(block);
  }
  if (!left.empty()) {
    throw DataError("pages", fmt::format("{}: expected <!-- generated: {} -->, found none", page, left.front().name));
  }
  return made + text.substr(at);
}

}  // namespace lt::launch
