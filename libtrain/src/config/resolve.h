// Parts of resolve(), for a configuration of which no more is needed, such as that of an earlier start.
#pragma once

#include "libtrain/config/resolved.h"

namespace lt::config {

// The dtype of parameters in use and of activations.
DType compute_dtype(Precision precision);
DataSpec data_spec(const Config& config);
// `config` has its derived values.
Schedule schedule_of(const Config& config);

}  // namespace lt::config
