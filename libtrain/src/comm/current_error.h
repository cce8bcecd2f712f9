// Any exception as an Error.
#pragma once

#include "libtrain/error.h"

namespace lt {

// Call it in a handler: the exception that is handled. DataError for what the file system refuses, InternalError for
// others that are no Error.
Error current_error();

}  // namespace lt
