// Counts the work of this thread when an operation is dispatched, on every device. One run on shapes alone therefore
// gives the FLOPs and bytes of a step.
#pragma once

#include "libtrain/device/context.h"
#include "libtrain/dtype.h"

namespace lt {

struct WorkCount {
  double product_flops = 0;  // matrix products, 2 M N K each
  // Attention over the visible pairs only: 2 products forward, 5 backward (Dao et al. 2022). Without a window each
  // product takes B H T^2 D.
  double attention_forward_flops = 0, attention_backward_flops = 0;
  // Bytes that all other operations read and write. Activations count twice, written once and read once.
  double traffic_bytes = 0;
};

// During the scope, adds this thread's work to the given count.
using WorkScope = ContextMemberScope<&Context::work>;

inline void count_products(double flops) {
  if (WorkCount* const work = Context::current().work) work->product_flops += flops;
}
inline void count_product(Size M, Size N, Size K, Size batch = 1) {
  count_products(2.0 * static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K * batch));
}
inline void count_attention_forward(double flops) {
  if (WorkCount* const work = Context::current().work) work->attention_forward_flops += flops;
}
inline void count_attention_backward(double flops) {
  if (WorkCount* const work = Context::current().work) work->attention_backward_flops += flops;
}
inline void count_traffic(Size bytes) {
  if (WorkCount* const work = Context::current().work) work->traffic_bytes += static_cast<double>(bytes);
}

}  // namespace lt
