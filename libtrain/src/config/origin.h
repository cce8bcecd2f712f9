// Where the value of a key comes from, and errors that say so.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "libtrain/config/config.h"
#include "libtrain/error.h"

namespace lt::config {

// The origin of every key of [model] where a program has made the model. All of them count, also those that are 0.
inline constexpr const char* kFromProgram = "from the program";

// Whether the origin is a file. Others are the command line, a variable of the environment and a program.
inline bool is_file(std::string_view origin) { return !origin.starts_with("from the "); }

// Runs `body`. Layers below the configuration know their own fields and no keys: if it throws a UsageError about a
// field that a key sets, throws one that names the key (component "config"), and the layer that set it.
void name_keys(const Config& config, const std::function<void()>& body);

}  // namespace lt::config
