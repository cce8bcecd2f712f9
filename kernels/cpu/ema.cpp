// Exponential moving average of weights on the CPU.
#include "kernels/ema.h"

#include "kernels/cpu/map.h"

namespace lt::kernels {

template <>
void ema_update(CpuStream, float* average_N, DType dtype, const void* w_N, Size N, double decay, int bias,
                const StepNumbers* numbers) {
  if (numbers->skip != 0.0f) return;
  const auto share = static_cast<float>((1 - decay) / static_cast<double>(numbers->bias[bias]));
  dispatch_float(dtype, [&]<class T>() {
    const T* const w = static_cast<const T*>(w_N);
    map(average_N, N, true,
        [=](Size i) LT_VECTOR_BODY { return share * (static_cast<float>(load(w[i])) - average_N[i]); });
  });
}

}  // namespace lt::kernels
