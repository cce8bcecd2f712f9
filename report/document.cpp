// Adds blocks to a report, and writes the report as Markdown.
#include "report/document.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/text.h"

namespace lt::report {
namespace {

// Text in which no HTML begins.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
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
  void operator()(const Paragraph& p) { out += plain(p.text) + "\n\n"; }
  void operator()(const List& list) {
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      out += fmt::format("{}. **{}.** {}\n", i + 1, plain(list.items[i].headline), plain(list.items[i].text));
    }
    out += "\n";
  }
  void operator()(const Figure& f) { out += "Chart: " + plain(f.title) + " (in " + html_name + ")\n\n"; }

  void operator()(const Table& t) {
    const std::size_t columns = t.rows.front().size();
    row(t.header.empty() ? std::vector<std::string>(columns) : t.header);
    out += "|";
    for (std::size_t i = 0; i < columns; ++i) out += i == 0 || t.text ? " --- |" : " ---: |";
    out += "\n";
    for (const auto& cells : t.rows) row(cells);
    out += "\n";
  }

  // The fence must be longer than any run of backticks in the text.
  void operator()(const Preformatted& p) {
    const std::string text = printable(p.text);
    std::size_t longest = 2, run = 0;
    for (char c : text) {
      run = c == '`' ? run + 1 : 0;
      longest = std::max(longest, run);
    }
    const std::string fence(longest + 1, '`');
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
