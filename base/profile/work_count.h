// Counts this thread's work when an operation is dispatched, on any device. So a rehearsal (a dry run of the step on
// shapes only) gives the FLOPs and bytes of a step.
#pragma once

#include "libtrain/device/context.h"
#include "libtrain/dtype.h"

namespace lt::profile {

// Milliseconds of matmuls, from measurements.
class MatmulTimes {
 public:
  virtual ~MatmulTimes() = default;
  virtual double ms(Size M, Size N, Size K) const = 0;
};

struct WorkCount {
  double matmul_flops = 0;     // matmuls, 2 M N K each
  double quantized_flops = 0;  // matmuls in e4m3, not counted above
  // With `times`: the FLOPs and the summed times of the matmuls whose sizes are known.
  const MatmulTimes* times = nullptr;
  double timed_flops = 0, timed_ms = 0;
  // Attention over the visible pairs only: 2 matmuls forward, 5 backward (Dao et al. 2022). Without a window each
  // matmul takes B H T^2 D FLOPs.
  double attention_forward_flops = 0, attention_backward_flops = 0;
  // Bytes that all other operations read and write. Each activation is counted twice: written once and read once.
  double traffic_bytes = 0;
  double operations = 0;  // one for each activation that an operation makes
};

// During the scope, adds this thread's work to the given count.
using WorkScope = ContextMemberScope<&Context::work>;

inline void count_matmuls(double flops) {
  if (WorkCount* const work = Context::current().work) work->matmul_flops += flops;
}
inline void count_matmul(Size M, Size N, Size K, Size batch = 1) {
  WorkCount* const work = Context::current().work;
  if (work == nullptr) return;
  const double flops = 2.0 * static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K * batch);
  work->matmul_flops += flops;
  if (work->times == nullptr) return;
  work->timed_flops += flops;
  work->timed_ms += static_cast<double>(batch) * work->times->ms(M, N, K);
}
inline void count_quantized_matmul(Size M, Size N, Size K) {
  WorkCount* const work = Context::current().work;
  if (work != nullptr) work->quantized_flops += 2.0 * static_cast<double>(M) * static_cast<double>(N * K);
}
inline void count_attention_forward(double flops) {
  if (WorkCount* const work = Context::current().work) work->attention_forward_flops += flops;
}
inline void count_attention_backward(double flops) {
  if (WorkCount* const work = Context::current().work) work->attention_backward_flops += flops;
}
// Counts an operation that makes an activation of this size.
inline void count_operation(Size bytes) {
  WorkCount* const work = Context::current().work;
  if (work == nullptr) return;
  work->traffic_bytes += 2 * static_cast<double>(bytes);
  work->operations += 1;
}
inline void count_traffic(Size bytes) {
  if (WorkCount* const work = Context::current().work) work->traffic_bytes += static_cast<double>(bytes);
}

}  // namespace lt::profile
