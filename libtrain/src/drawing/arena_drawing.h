// Draws the memory of a step: where each block lies in the arena, and from when to when.
#pragma once

#include <string>

#include "libtrain/memory/memory_plan.h"

namespace lt {

// Returns a stand-alone SVG: one rectangle per block, from its offset up by its bytes, from its allocation to its free,
// in the colour of its owner; hovering shows the values. Its own style covers light and dark, wide and narrow. The
// classes begin with `arena`, so that it can be embedded in a page. Of many thousand blocks only the largest are drawn,
// and the drawing says so.
std::string arena_svg(const MemoryPlan& plan);

// Whether a text is such a drawing, in which nothing can run, load or reach outside it. For files from untrusted
// writers, before they become part of a page.
bool is_arena_svg(const std::string& text);

}  // namespace lt
