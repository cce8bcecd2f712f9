// The sigmoid of the activations.
#pragma once

namespace lt::kernels {

__device__ inline float sigmoid(float z) { return 1.0f / (1.0f + __expf(-z)); }
__device__ inline double sigmoid(double z) { return 1.0 / (1.0 + exp(-z)); }

}  // namespace lt::kernels
