// Fills an engine from one step's folder.
#pragma once

#include <string>

#include "libtrain/checkpoint.h"
#include "libtrain/engine.h"

namespace lt {

// The engine's own part of a run's state: step, data position, loss scale.
checkpoint::RunState state_of(const Engine& engine);

// Masters, m, v and that state; all ranks of `group` call it. Throws DataError.
void load_engine(Engine& engine, const std::string& step_directory, const Group& group);

}  // namespace lt
