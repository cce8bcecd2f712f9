// Adds blocks to a report, and writes the report as Markdown.
#include "report/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "report/text.h"

namespace lt::report {
namespace {

// Whether an entity such as `&lt;` begins there.
bool is_entity(const std::string& text, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '#')) ++end;
  return text[begin] == '&' && end > begin + 1 && end < text.size() && text[end] == ';';
}

// Text in which no HTML begins.
std::string plain(const std::string& unsafe) {
  const std::string text = printable(unsafe);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i] == '<' ? "&lt;" : is_entity(text, i) ? "&amp;" : std::string(1, text[i]);
  }
  return out;
}

// Backticks, at least `fewest` and more than any run of them in the text.
std::string fence_around(const std::string& text, std::size_t fewest) {
  std::size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    fewest = std::max(fewest, run + 1);
  }
  return std::string(fewest, '`');
}

// One line of text that Markdown shows unchanged.
std::string code_span(const std::string& unsafe) {
  const std::string text = printable(unsafe), fence = fence_around(text, 1);
  const std::string space = text.starts_with('`') || text.ends_with('`') ? " " : "";
  return fence + space + text + space + fence;
}

// Turns text into a table cell: one line, with every | escaped.
std::string cell_text(const std::string& text) {
  std::string out;
  for (const char c : plain(text)) {
    if (c == '|') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

struct MarkdownWriter {
  const std::string& html_name;
  std::string out;

  void operator()(const Heading& h) {
    out += std::string(static_cast<std::size_t>(h.level), '#') + " " + plain(h.text) + "\n\n";
  }
  void operator()(const Paragraph& p) {
    out += plain(p.text) + (p.code.empty() ? "" : " " + code_span(p.code)) + "\n\n";
  }
  void operator()(const Contents&) {}
  void operator()(const Tiles& t) {
    Table table;
    auto& values = table.rows.emplace_back();
    for (const Tiles::Tile& tile : t.tiles) {
      table.header.push_back(tile.name);
      values.push_back(tile.note.empty() ? tile.value : fmt::format("{} ({})", tile.value, tile.note));
    }
    table.text = true;
    (*this)(table);
  }
  void operator()(const List& list) {
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const List::Item& item = list.items[i];
      const std::string number = fmt::format("{}. ", i + 1), headline = plain(item.headline);
      if (list.folded) {
        out += fmt::format("{}**{}**{}\n\n{}{}\n", number, headline, item.fact.empty() ? "" : ": " + plain(item.fact),
                           std::string(number.size(), ' '), plain(item.text));
      } else {
        out += fmt::format("{}**{}.** {}\n", number, headline, plain(item.text));
      }
    }
    out += "\n";
  }
  void operator()(const Figure& f) {
    out += f.numbers.empty() ? "Chart: " + plain(f.title) + " (in " + html_name + ")\n\n"
                             : plain(f.title) + ": " + plain(f.numbers) + ".\n\n";
  }

  void operator()(const Table& t) {
    const std::size_t columns = t.rows.front().size();
    row(t.header.empty() ? std::vector<std::string>(columns) : t.header);
    out += "|";
    for (std::size_t i = 0; i < columns; ++i) out += i == 0 || t.text ? " --- |" : " ---: |";
    out += "\n";
    for (const auto& cells : t.rows) row(cells);
    out += "\n";
  }

  void operator()(const Preformatted& p) {
    const std::string text = printable(p.text), fence = fence_around(text, 3);
    out += "**" + plain(p.title) + "**\n\n" + fence + "\n" + text + (text.ends_with('\n') ? "" : "\n") + fence + "\n\n";
  }

  void row(const std::vector<std::string>& cells) {
    out += "|";
    for (const std::string& cell : cells) out += " " + cell_text(cell) + " |";
    out += "\n";
  }
};

}  // namespace

bool Document::add(Block block) {
  if (const auto* table = std::get_if<Table>(&block); table != nullptr && table->rows.empty()) return false;
  if (const auto* list = std::get_if<List>(&block); list != nullptr && list->items.empty()) return false;
  if (const auto* drawn = std::get_if<Figure>(&block); drawn != nullptr && drawn->html.empty()) return false;
  blocks.push_back(std::move(block));
  return true;
}

std::string to_markdown(const Document& document, const std::string& html_name) {
  MarkdownWriter writer{html_name, {}};
  for (const Block& block : document.blocks) std::visit(writer, block);
  while (writer.out.ends_with("\n\n")) writer.out.pop_back();
  return writer.out;
}

}  // namespace lt::report
