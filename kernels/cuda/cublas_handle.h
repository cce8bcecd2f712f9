// RAII for cuBLASLt's descriptors, and exceptions for its status codes.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>

#include "libtrain/error.h"

namespace lt::kernels {

inline void check_cublas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw InternalError("cuda", std::string(call) + ": " + cublasLtGetStatusString(status));
}
#define LT_CUBLAS(call) ::lt::kernels::check_cublas((call), #call)

template <class T, auto kDestroy>
struct CublasDelete {
  void operator()(T* handle) const { kDestroy(handle); }
};
template <class Handle, auto kDestroy>
using CublasHandle =
    std::unique_ptr<std::remove_pointer_t<Handle>, CublasDelete<std::remove_pointer_t<Handle>, kDestroy>>;

using MatmulDescription = CublasHandle<cublasLtMatmulDesc_t, &cublasLtMatmulDescDestroy>;
using MatrixLayout = CublasHandle<cublasLtMatrixLayout_t, &cublasLtMatrixLayoutDestroy>;
using MatmulPreference = CublasHandle<cublasLtMatmulPreference_t, &cublasLtMatmulPreferenceDestroy>;

}  // namespace lt::kernels
