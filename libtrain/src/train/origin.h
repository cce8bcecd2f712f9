// Adds the origin of a key's value to errors that are found after the layers were applied.
#pragma once

#include <string>
#include <string_view>

#include "libtrain/error.h"
#include "libtrain/train/config.h"

namespace lt {

// The origin of every key of [model] where a program has made the model. All of them count, also those that are 0.
inline constexpr const char* kFromProgram = "from the program";

// Whether the origin is a file. Others are the command line, a variable of the environment and a program.
inline bool is_file(std::string_view origin) { return !origin.starts_with("from the "); }

// Runs `body`. If it throws a UsageError whose message begins with a key that a layer set, appends that layer to the
// message.
template <class Body>
void name_origin(const Config& config, Body&& body) {
  try {
    body();
  } catch (const UsageError& e) {
    const std::string message = e.what();
    const auto origin = config.origins.find(message.substr(0, message.find(':')));
    if (origin == config.origins.end()) throw;
    throw UsageError(e.component(), message + " (" + origin->second + ")", e.hint());
  }
}

}  // namespace lt
