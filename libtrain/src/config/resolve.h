// Parts of resolve(), for callers that need only these, such as a comparison with an earlier start's configuration.
#pragma once

#include "libtrain/config/resolved.h"

namespace lt::config {

// The dtype of parameters in use and of activations.
DType compute_dtype(Precision precision);
DataSpec data_spec(const Config& config);
// `config` must have its derived values.
Schedule schedule_of(const Config& config);

}  // namespace lt::config
