// The generated blocks of the reference pages in docs/reference. Each has its place on one page, between the lines
// `<!-- generated: NAME -->` and `<!-- end -->`; the text around it is written by hand.
#pragma once

#include <string>
#include <vector>

#include "launch/pages/command_tree.h"

namespace lt::launch {

struct PageBlock {
  std::string page;  // "configuration.md"
  std::string name;
  std::string text;  // whole lines
};

// The blocks of all pages. They are the same in every build of the same sources.
std::vector<PageBlock> page_blocks(const PageCommand& root);

// Returns the page with the current text of its blocks. Throws DataError if the page lacks one of them or has an
// unknown one.
std::string renewed(const std::string& page, const std::string& text, const std::vector<PageBlock>& blocks);

}  // namespace lt::launch
