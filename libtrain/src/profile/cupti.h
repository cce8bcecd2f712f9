// The functions of CUPTI that a kernel profile calls. The library is loaded when it is first asked for and never
// linked: programs start where there is none. For sources of a build with CUPTI alone.
#pragma once

#include <cupti.h>

namespace lt {

struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush_all;
  decltype(&cuptiActivityGetNextRecord) next_record;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records;
  decltype(&cuptiGetResultString) result_string;
};

// Throws UsageError where the library is not found or is not complete.
const Cupti& cupti();

// Throws UsageError that names `call` and CUPTI's reason.
void check_cupti(CUptiResult code, const char* call);

}  // namespace lt

#define LT_CUPTI(function, ...) ::lt::check_cupti(::lt::cupti().function(__VA_ARGS__), #function)
