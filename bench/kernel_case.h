// One row of `bench kernels`: a kernel at one shape and dtype, its work, and how to call it.
//
// `flops` counts each addition, multiplication, division and elementary function (exp, tanh, sqrt) of the formula in
// the kernel's header once. `bytes` is the traffic that no implementation can avoid: the size of each array that is
// read or written, and twice the size of an array that is both. Both numbers describe the result, not the
// implementation: for causal attention, they include the visible half only, and no T x T matrix.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/tensor/tensor.h"
#include "nn/model_family.h"

namespace lt::bench {

// A kernel's limit besides memory: multiply-adds, or matmuls of its dtype.
enum class Work { elementwise, matmul };

struct PreparedKernel {
  std::function<void()> launch;  // the timed call; owns its arrays
  double max_error = -1;         // against the reference, see KernelCase::tolerance; below 0: not compared
};

struct KernelCase {
  std::string name, shape;
  DType dtype;
  Work work;
  Size flops, bytes;
  std::function<PreparedKernel()> prepare;  // allocates and fills all arrays
  std::string implementation = {};          // set if a kernel has several
  Size footprint = 0;                       // bytes of all arrays, if some are both read and written; 0: `bytes`
  double tolerance = 0;                     // largest accepted max |x - reference| / (1 + |reference|)
  Size matrix_bytes = 0;                    // bytes of T x T matrices that `prepare` also allocates
};

// Sizes of the kernels in a step of a model.
struct KernelSizes {
  Device device;
  nn::TransformerSpec spec;
  Size B, T;  // sequences of a micro-batch, tokens of each

  Size M() const { return B * T; }
  Size row() const { return (spec.heads + 2 * spec.kv_heads) * spec.head_dim; }  // elements of packed [q | k | v]
  Size ffn_inputs() const {
    return nn::find_family(spec.family).gated_ffn ? 2 : 1;
  }  // matrices before the activation: gate and up, or up alone

  // y [M, out] = x [M, in] w^T with w [out, in], of a block.
  struct Linear {
    std::string_view name;
    Size in, out;
  };
  std::array<Linear, 4> linears() const {
    return {{{"qkv", spec.width, row()},
             {"attention_out", spec.heads * spec.head_dim, spec.width},
             {"ffn_in", spec.width, ffn_inputs() * spec.ffn},
             {"ffn_out", spec.ffn, spec.width}}};
  }
};

// Bytes. Cases with larger T x T matrices are skipped.
inline Size most_matrix_bytes(Device device) { return Size{device.type == DeviceType::cuda ? 16 : 2} << 30; }

// Each adds the cases of one subject, in f32 and bf16. Kernels that the model's family does not use are included, at
// its sizes.
using KernelCases = std::vector<KernelCase>;
void add_gemm_cases(KernelCases& cases, const KernelSizes& sizes);
void add_quantized_cases(KernelCases& cases, const KernelSizes& sizes);  // FP8, in bf16 and e4m3
void add_attention_cases(KernelCases& cases, const KernelSizes& sizes);
void add_row_cases(KernelCases& cases, const KernelSizes& sizes);
void add_token_cases(KernelCases& cases, const KernelSizes& sizes);
void add_flat_cases(KernelCases& cases, const KernelSizes& sizes);

inline constexpr DType kBenchDTypes[] = {DType::f32, DType::bf16};

// Uniform in [-1, 1).
Tensor random_values(const Shape& shape, DType dtype, Device device);
// In [0, limit), i32.
Tensor random_ids(Size count, Size limit, Device device);

}  // namespace lt::bench
