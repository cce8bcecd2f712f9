// Draws the memory of a step: each block's place in the arena and its lifetime.
#pragma once

#include <string>

#include "libtrain/memory/memory_plan.h"

namespace lt::drawing {

// Returns a stand-alone SVG with one rectangle per block, in the colour of its owner. Vertically it spans the block's
// bytes from its offset up, horizontally the time from allocation to free; hovering shows the values. The SVG has its
// own style for light and dark, wide and narrow. Its classes begin with `arena`, so that it can be embedded in a page.
// If there are many thousand blocks, only the largest are drawn, and the drawing says so.
std::string arena_svg(const MemoryPlan& plan);

// Whether a text is such a drawing, so that nothing in it can run, load or reach outside it. Use it on files from
// untrusted writers before embedding them in a page.
bool is_arena_svg(const std::string& text);

}  // namespace lt::drawing
