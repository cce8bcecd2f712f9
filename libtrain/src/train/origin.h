// Where the value of a key came from, in errors that are found after the layers were laid on.
#pragma once

#include <string>

#include "libtrain/error.h"
#include "libtrain/train/config.h"

namespace lt {

// Runs `body`; a UsageError inside whose message begins with a key that a layer set gets that layer at its end.
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
