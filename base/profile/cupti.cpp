// Loads CUPTI: first by its versioned name on the loader's path, then from the folders of this build's toolkit, last by
// its plain name.
#include "profile/cupti.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <string>

#include "libtrain/error.h"

namespace lt::profile {
namespace {

constexpr const char* kFolders[] = {LIBTRAIN_CUPTI_FOLDERS};
constexpr const char* kHint =
    "CUPTI comes with the CUDA toolkit and with PyPI's nvidia-cuda-cupti: put the folder of its library on "
    "LD_LIBRARY_PATH, or leave kernels out";

void* open_library() {
  const std::string name = "libcupti.so", versioned = name + "." + std::to_string(CUDART_VERSION / 1000);
  std::string reasons;
  const auto open = [&](const std::string& file) {
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr && reasons.empty()) reasons = dlerror();
    return library;
  };
  if (void* library = open(versioned)) return library;
  for (const char* folder : kFolders) {
    if (void* library = open(std::string(folder) + "/" + versioned)) return library;
  }
  if (void* library = open(name)) return library;
  throw UsageError("device", "expected the library CUPTI, found none: " + reasons, kHint);
}

template <class Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) {
    throw UsageError("device", std::string("expected ") + symbol + " in the library CUPTI, found none", kHint);
  }
}

Cupti load() {
  void* library = open_library();
  Cupti functions{};
  find(library, "cuptiActivityRegisterCallbacks", functions.register_callbacks);
  find(library, "cuptiActivityEnable", functions.enable);
  find(library, "cuptiActivityDisable", functions.disable);
  find(library, "cuptiActivityFlushAll", functions.flush_all);
  find(library, "cuptiActivityGetNextRecord", functions.next_record);
  find(library, "cuptiActivityGetNumDroppedRecords", functions.dropped_records);
  find(library, "cuptiGetResultString", functions.result_string);
  return functions;
}

}  // namespace

const Cupti& cupti() {
  static const Cupti functions = load();
  return functions;
}

void check_cupti(CUptiResult code, const char* call) {
  if (code == CUPTI_SUCCESS) return;
  const char* reason = nullptr;
  if (cupti().result_string(code, &reason) != CUPTI_SUCCESS || reason == nullptr) reason = "unknown";
  throw UsageError("device",
                   std::string("CUPTI does not record in this process: ") + call + " failed with " + reason + " (" +
                       std::to_string(static_cast<int>(code)) + ")",
                   "one profiler at a time: run without nsys, ncu or another that uses CUPTI, or leave kernels out");
}

}  // namespace lt::profile
