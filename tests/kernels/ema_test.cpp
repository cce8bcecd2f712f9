// The average of weights against its formula.
#include "kernels/ema.h"

#include <cmath>

#include "kernels/inputs.h"
#include "test_main/catch.h"
#include "test_main/worst_of.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

TEST_CASE("ema_update: the mean of the weights so far, later ones counting more", "[kernels]") {
  const Size n = 20011;
  const double decay = 0.875;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Array average(DType::f32, n, 0);
    std::vector<double> sum(static_cast<std::size_t>(n));
    double weight = 0;
    for (int step = 1; step <= 4; ++step) {
      Array w = random_array(dtype, n, static_cast<std::uint64_t>(step));
      const float bias = static_cast<float>(1 - std::pow(decay, step));
      const StepNumbers numbers{.bias = {1, 1, bias, 1}};
      ema_update(CpuStream{}, pointer<float>(average), dtype, w.data(), n, decay, 2, &numbers);
      weight = decay * weight + (1 - decay);
      double most = 0;
      for (Size i = 0; i < n; ++i) {
        double& s = sum[static_cast<std::size_t>(i)];
        s = decay * s + (1 - decay) * w[i];
        most = lt_test::worst_of(most, std::abs(average[i] - s / weight));
      }
      CHECK(most <= (step == 1 ? 0 : 5e-7));
    }
    const double before = average[5];
    Array w(dtype, n, 3);
    const StepNumbers skipped{.skip = 1};
    ema_update(CpuStream{}, pointer<float>(average), dtype, w.data(), n, 0.9, 2, &skipped);
    CHECK(average[5] == before);
  }
}
