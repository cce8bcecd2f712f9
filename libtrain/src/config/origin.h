// The origin of a key's value, and errors that name it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "libtrain/config/config.h"
#include "libtrain/error.h"

namespace lt::config {

// The origin of every key of [model] if a program has made the model. All these keys count as set, even if they are 0.
inline constexpr const char* kFromProgram = "from the program";

// The origin of a key that the environment sets is this text and the variable's name.
inline constexpr std::string_view kFromVariable = "from the environment variable ";

// The origin of a value that a run keeps from the state from which it continues.
inline constexpr const char* kFromCheckpoint = "from the checkpoint";

// True if the origin is a file. Other origins are the command line, an environment variable and a program.
inline bool is_file(std::string_view origin) { return !origin.starts_with("from the "); }

// Runs `body`. Layers below the configuration know their own fields, but no keys. So if `body` throws a UsageError
// about a field that a key sets, name_keys() throws one of component "config" that names the key and the layer that set
// it.
void name_keys(const Config& config, const std::function<void()>& body);

}  // namespace lt::config
