// What this thread computes, counted where an operation is dispatched, on every device: so one run on shapes alone
// tells the FLOPs and the bytes of a program.
#pragma once

#include "libtrain/dtype.h"

namespace lt {

struct WorkCount {
  double product_flops = 0;  // of matrix products: 2 M N K
  // Of causal attention at its half: 2 products forward, 5 backward (Dao et al. 2022), each B H T^2 D.
  double attention_forward_flops = 0, attention_backward_flops = 0;
  // That everything else reads and writes. Activations count twice, as written once and read once.
  double traffic_bytes = 0;
};

// Since the thread began; grows only.
WorkCount& work_count();

inline void count_product(Size M, Size N, Size K, Size batch = 1) {
  work_count().product_flops += 2.0 * static_cast<double>(M) * static_cast<double>(N) * static_cast<double>(K * batch);
}
inline void count_traffic(Size bytes) { work_count().traffic_bytes += static_cast<double>(bytes); }

}  // namespace lt
