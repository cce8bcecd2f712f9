// Converts the current exception to an Error.
#pragma once

#include "libtrain/error.h"

namespace lt::comm {

// Returns the exception that is being handled. A filesystem_error becomes a DataError, a bad_alloc an InternalError,
// and any other exception that is not an Error becomes one of component "program" with ExitCode::internal.
Error current_error();

}  // namespace lt::comm
