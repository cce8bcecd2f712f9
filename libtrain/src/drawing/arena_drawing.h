// The memory of a step as a picture: which block lies where in the arena, and from when to when.
#pragma once

#include <string>

#include "libtrain/memory/memory_plan.h"

namespace lt {

// One stand-alone SVG: a rectangle a block, from its offset up by its bytes, from its allocation to its free, in the
// colour of its owner; the values of a block under the pointer. Light and dark, wide and narrow by its own style, whose
// classes begin with `arena`, so that it may stand inline in a page. Of many thousand blocks the largest are drawn, and
// the drawing says so.
std::string arena_svg(const MemoryPlan& plan);

// Whether a text is such a drawing, and nothing in it could run, load or reach outside of it: for files that anyone may
// have written, before they become part of a page.
bool is_arena_svg(const std::string& text);

}  // namespace lt
