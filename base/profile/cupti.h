// The CUPTI functions that a kernel profile calls. The library is loaded at first use and never linked, so programs
// start without it. Include this only in sources that need CUPTI to build.
#pragma once

#include <cupti.h>

namespace lt::profile {

struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush_all;
  decltype(&cuptiActivityGetNextRecord) next_record;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records;
  decltype(&cuptiGetResultString) result_string;
};

// Throws UsageError if the library is not found or is incomplete.
const Cupti& cupti();

// If `code` is an error, throws a UsageError with `call` and CUPTI's reason.
void check_cupti(CUptiResult code, const char* call);

}  // namespace lt::profile

#define LT_CUPTI(function, ...) ::lt::profile::check_cupti(::lt::profile::cupti().function(__VA_ARGS__), #function)
