// Writes a report's blocks as an HTML page. Invariant: the page is readable without scripts and has no external
// references.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "report/document.h"
#include "report/json.h"
#include "report/style.h"
#include "report/svg_chart.h"
#include "report/text.h"

namespace lt::report {
namespace {

std::string color_rules() {
  std::string out;
  for (int i = 0; i < kChartColors; ++i) {
    out += fmt::format(
        ".s{0} {{ stroke: var(--c{0}); }} .f{0} {{ fill: var(--c{0}); }} .k{0} {{ background: var(--c{0}); }}\n", i);
  }
  return out;
}

// How many columns of numbers, of words and of wrapping text fit on a phone.
constexpr std::size_t kNumberColumns = 6, kWordColumns = 5, kTextColumns = 3;

std::size_t columns_that_fit(const Table& t) { return t.text ? kTextColumns : t.words ? kWordColumns : kNumberColumns; }

// The cell is empty if the share is too small to be visible.
std::string bar_cell(double share, std::size_t color) {
  if (!(share > 0.0005)) return "<td class=\"bar\"></td>";
  return fmt::format("<td class=\"bar\"><i class=\"k{}\" style=\"width:{:.1f}%\"></i></td>", color % kChartColors,
                     100 * share);
}

// An anchor made of a heading's letters and digits; a number makes a repeated one unique.
class Anchors {
 public:
  std::string next(const std::string& heading) {
    std::string name;
    for (char c : heading) {
      const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
      if (letter) name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      if (!letter && !name.empty() && name.back() != '-') name += '-';
    }
    if (name.empty()) name = "section";
    std::string unique = name;
    for (int n = 2; !used_.insert(unique).second; ++n) unique = fmt::format("{}-{}", name, n);
    return unique;
  }

 private:
  std::set<std::string> used_ = {"tip"};  // the id of the page's tooltip
};

// The headings below the title as nested links; empty for a page of few sections.
std::string contents(const Document& document) {
  Anchors anchors;
  std::string out;
  int depth = 1, links = 0;
  for (const Block& block : document.blocks) {
    const auto* heading = std::get_if<Heading>(&block);
    if (heading == nullptr) continue;
    const std::string anchor = anchors.next(heading->text);
    if (heading->level < 2) continue;
    for (; depth > heading->level; --depth) out += "</li></ul>";
    out += depth == heading->level ? "</li>" : "";
    for (; depth < heading->level; ++depth) out += depth + 1 < heading->level ? "<ul><li>" : "<ul>";
    out += fmt::format("<li><a href=\"#{}\">{}</a>", anchor, escaped(heading->text));
    ++links;
  }
  for (; depth > 1; --depth) out += "</li></ul>";
  return links < 3 ? "" : "<nav aria-label=\"Contents\">" + out + "</nav>\n";
}

struct HtmlWriter {
  const Document& document;
  std::string out = {};
  Anchors anchors = {}, keys = {};

  void operator()(const Contents&) { out += contents(document); }
  void operator()(const Heading& h) {
    out += fmt::format("<h{0} id=\"{1}\">{2}</h{0}>\n", h.level, anchors.next(h.text), escaped(h.text));
  }
  void operator()(const Paragraph& p) {
    const std::string code = p.code.empty() ? "" : fmt::format(" <code>{}</code>", escaped(p.code));
    out += fmt::format("<p{}>{}{}</p>\n", p.small ? " class=\"note\"" : "", escaped(p.text), code);
  }
  void operator()(const Tiles& t) {
    out += "<dl class=\"tiles\">\n";
    for (const Tiles::Tile& tile : t.tiles) {
      out += fmt::format("<div><dt>{}</dt><dd class=\"value\">{}</dd><dd>{}</dd></div>\n", escaped(tile.name),
                         escaped(tile.value), escaped(tile.note));
    }
    out += "</dl>\n";
  }
  void operator()(const Figure& f) { out += f.html; }
  void operator()(const List& list) {
    out += list.folded ? "<ol class=\"folded\">\n" : "<ol>\n";
    for (const List::Item& item : list.items) {
      if (list.folded) {
        const std::string fact = item.fact.empty() ? "" : ": " + item.fact;
        out += "<li>" +
               details(item.headline, "<b>" + escaped(item.headline) + "</b>" + escaped(fact),
                       "<p>" + escaped(item.text) + "</p>") +
               "</li>\n";
      } else {
        out += fmt::format("<li><b>{}.</b> {}</li>\n", escaped(item.headline), escaped(item.text));
      }
    }
    out += "</ol>\n";
  }

  void operator()(const Table& t) {
    const bool bars = !t.bars.empty(), wide = t.header.size() > columns_that_fit(t);
    out += fmt::format("<div class=\"scroll\"><table class=\"{}{}{}\">\n",
                       t.text             ? "text "
                       : t.header.empty() ? "pairs "
                                          : "",
                       bars ? "full " : "",
                       wide                                ? "cards"
                       : t.header.size() == kNumberColumns ? "tight"
                                                           : "");
    if (!t.header.empty()) {
      out += "<tr>";
      for (const std::string& cell : t.header) out += fmt::format("<th>{}</th>", escaped(cell));
      out += bars ? "<th></th></tr>\n" : "</tr>\n";
    }
    for (std::size_t i = 0; i < t.rows.size(); ++i) {
      row(t, t.rows[i], wide);
      out += bars ? bar_cell(std::clamp(t.bars[i], 0.0, 1.0), t.colored ? i : 0) : "";
      out += "</tr>\n";
    }
    out += "</table></div>\n";
  }

  void operator()(const Preformatted& p) {
    const std::string text = fmt::format("<pre>{}</pre>", escaped(p.text));
    if (p.folded) {
      out += details(p.title, "<b>" + escaped(p.title) + "</b>", text) + "\n";
    } else {
      out += fmt::format("<h3>{}</h3>\n{}\n", escaped(p.title), text);
    }
  }

  // A live page finds what the reader opened by its key.
  std::string details(const std::string& name, const std::string& summary, const std::string& content) {
    return fmt::format("<details data-key=\"{}\"><summary>{}</summary>{}</details>", keys.next(name), summary, content);
  }

  // Narrow screens show each row of a wide table as a list, so its cells carry the names of their columns.
  void row(const Table& t, const std::vector<std::string>& cells, bool named) {
    out += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      out += named && i > 0 ? fmt::format("<td data-name=\"{}\">{}</td>", escaped(t.header[i]), escaped(cells[i]))
                            : fmt::format("<td>{}</td>", escaped(cells[i]));
    }
  }
};

// A string as JavaScript in a page reads it.
std::string script_text(const std::string& text) {
  std::string quoted = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t at = 0; (at = quoted.find("</", at)) != std::string::npos; at += 3) quoted.insert(at + 1, "\\");
  return quoted;
}

// Every byte but letters, digits and -._~ as %XX, so that a name may hold any bytes (RFC 3986).
std::string as_url(const std::string& file_name) {
  std::string url;
  for (const char c : file_name) {
    const bool digit = c >= '0' && c <= '9', letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (digit || letter || c == '-' || c == '.' || c == '_' || c == '~')
      url += c;
    else
      url += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return url;
}

std::string page(const Document& document, const std::string& body, const std::string& script) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n{}<script>{}</script>\n</body>\n</html>\n",
      escaped(document.title), kReportStyle, color_rules(), body, script);
}

}  // namespace

std::string body_html(const Document& document) {
  HtmlWriter writer{document};
  for (const Block& block : document.blocks) std::visit(writer, block);
  return writer.out;
}

std::string to_html(const Document& document) { return page(document, body_html(document), kReportScript); }

std::string to_live_html(const Document& document, const std::string& data) {
  return page(document, "<p class=\"note reading\"></p>\n<main>\n" + body_html(document) + "</main>\n",
              kReportScript + fmt::format("const live = \"{}\";\n", as_url(data)) + kLiveScript);
}

std::string live_data(const std::string& body, double read_at, double next_in_s) {
  return fmt::format("ltrainShow({}, {:.0f}, {:.0f});\n", script_text(body), read_at, next_in_s);
}

std::string last_data(const std::string& body, double read_at) {
  return fmt::format("ltrainShow({}, {:.0f}, null);\n", script_text(body), read_at);
}

}  // namespace lt::report
