// Naive attention and library attention match the tiled kernel, for grouped heads and odd lengths too.
#include <cmath>

#include "bench/attention_methods.h"
#include "bench/kernel_case.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::bench;

TEST_CASE("attention: three ways, the same numbers", "[bench]") {
  const kernels::AttentionShape shapes[] = {{1, 1, 1, 1, 1}, {2, 5, 3, 3, 7}, {2, 33, 4, 2, 16}, {1, 70, 6, 1, 32}};
  for (const auto& shape : shapes) {
    for (const DType dtype : kBenchDTypes) {
      CAPTURE(shape.B, shape.T, shape.H, shape.G, shape.D, dtype_name(dtype));
      const AttentionInputs inputs{shape, 1 / std::sqrt(static_cast<double>(shape.D)),
                                   random_values({shape.B, shape.T, shape.row()}, dtype, kCpu),
                                   random_values({shape.B, shape.T, shape.H * shape.D}, dtype, kCpu)};
      const auto tiled = tiled_attention(inputs);
      tiled->forward(), tiled->backward();
      // bf16: the result is rounded once; the library path also rounds scores and gradients twice.
      for (const auto& [path, rounded] :
           {std::pair{naive_attention(inputs), 8e-3}, {library_attention(inputs), 5e-2}}) {
        const double tolerance = dtype == DType::f32 ? 2e-5 : rounded;
        path->forward(), path->backward();
        CHECK(error_of(path->out(), tiled->out()) <= tolerance);
        CHECK(error_of(path->dqkv(), tiled->dqkv()) <= tolerance);
      }
    }
  }
}
