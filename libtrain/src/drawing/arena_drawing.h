// Draws the memory of a step: each block's place in the arena (the one block that holds all step memory) and its
// lifetime.
#pragma once

#include <string>

#include "libtrain/memory/memory_plan.h"

namespace lt::drawing {

// Returns a stand-alone SVG with one rectangle per block, in the colour of its owner. Vertically a rectangle spans the
// block's bytes, horizontally the time from allocation to free. Hovering shows the values. The SVG has its own styles
// for light and dark pages, wide and narrow screens. Its class names begin with `arena`, so it can be embedded in a
// page. If there are many thousand blocks, only the largest are drawn, and the drawing says so.
std::string arena_svg(const MemoryPlan& plan);

// True if `text` has only elements and attributes that arena_svg() writes, so that it cannot run scripts or load
// anything. Call it on files from untrusted writers before embedding them in a page.
bool is_arena_svg(const std::string& text);

}  // namespace lt::drawing
