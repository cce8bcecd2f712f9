// Describes the machine of a run or a measurement, and the libraries that compute there.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "libtrain/comm/world.h"

namespace lt::run {

// Version, commit, libraries, driver (null without a GPU), host, processor, memory, ranks and threads.
nlohmann::ordered_json machine(const World& world);

// The version of a component of build_components(); empty: this build does not use it.
std::string built_version(const char* component_name);
// The versions of the libraries that this process has loaded, "2.28.9"; empty: not loaded.
std::string loaded_nccl();
std::string loaded_cudnn();

}  // namespace lt::run
