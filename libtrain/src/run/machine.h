// Describes the machine of a run or a measurement as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "libtrain/comm/world.h"

namespace lt::run {

// Version, commit, libraries, driver (null without a GPU), host, processor, memory, ranks and threads.
nlohmann::ordered_json machine(const World& world);

}  // namespace lt::run
