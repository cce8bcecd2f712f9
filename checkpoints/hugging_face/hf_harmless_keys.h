// Keys of config.json that do not change what a model computes.
#pragma once

#include <string_view>

namespace lt::checkpoint {

bool is_harmless(std::string_view key);

}  // namespace lt::checkpoint
