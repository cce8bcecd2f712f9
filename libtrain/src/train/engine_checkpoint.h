// Fills an engine from one step's folder.
#pragma once

#include <string>

#include "libtrain/engine.h"

namespace lt {

// Masters, m, v, step and data position; all ranks of `group` call it. Throws DataError.
void load_engine(Engine& engine, const std::string& step_directory, const Group& group);

}  // namespace lt
