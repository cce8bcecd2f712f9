// A report as a list of blocks. Two writers turn them into text: HTML (html.cpp) and Markdown. All strings are plain
// text except Figure::html.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace lt::report {

struct Heading {
  int level;  // 1 to 3
  std::string text;
};

struct Paragraph {
  std::string text;
  std::string code = {};  // at its end, to be copied
  bool small = false;
};

// The links to the headings, in HTML only.
struct Contents {};

// A few figures side by side, each with its name above it and a note below it.
struct Tiles {
  struct Tile {
    std::string name, value, note;
  };
  std::vector<Tile> tiles;
};

// A numbered list. Each item begins with a few highlighted words. If `folded`, an item is one line, the headline and
// `fact`, and its text is hidden until the reader opens it; Markdown has the text below the line.
struct List {
  struct Item {
    std::string headline, text;
    std::string fact = {};
  };
  std::vector<Item> items;
  bool folded = false;
};

// The first column is aligned left. Other columns are aligned right, or left if `text` is set.
struct Table {
  std::vector<std::string> header;  // empty: no header row
  std::vector<std::vector<std::string>> rows;
  std::vector<double> bars = {};  // one share in [0, 1] per row, drawn as a bar in HTML; empty: no bars
  bool text = false;
  bool words = false;    // headers and cells are words; fewer such columns fit on a phone
  bool colored = false;  // bars have the colours of a chart's legend, row by row
};

// A drawing from svg_chart.h or bar_chart.h. Markdown holds its title and `numbers`. If that is empty, a table must
// hold the numbers of the drawing too.
struct Figure {
  std::string title;
  std::string html;
  std::string numbers = {};
};

// If `folded`, hidden until the reader opens it.
struct Preformatted {
  std::string title, text;
  bool folded;
};

using Block = std::variant<Heading, Paragraph, Contents, Tiles, List, Table, Figure, Preformatted>;

struct Document {
  std::string title;
  std::vector<Block> blocks;

  // Adds the block unless it is a table or list without rows or a figure without a drawing. Returns true if it was
  // added.
  bool add(Block block);
};

// Returns one page without external references.
std::string to_html(const Document& document);
// Returns the body of that page without its script.
std::string body_html(const Document& document);
// Returns a page that repeatedly loads the script file named `data` from its own folder and shows the content. The page
// keeps the reader's position and choices. It says when the runs were read, and warns if that is long ago.
std::string to_live_html(const Document& document, const std::string& data);
// The text of that script file: the new body, the Unix time at which the runs were read, and the seconds until the next
// reading. last_data() says that no reading follows.
std::string live_data(const std::string& body, double read_at, double next_in_s);
std::string last_data(const std::string& body, double read_at);
// Returns the report as Markdown. `html_name` is the name of the HTML file, which has the charts.
std::string to_markdown(const Document& document, const std::string& html_name);

}  // namespace lt::report
