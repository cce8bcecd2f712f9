// The numbers of a step: norm, clipping, bias corrections, the scale of f16.
#include "kernels/step_numbers.h"

#include <cmath>

#include "kernels/id_check.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::kernels;

TEST_CASE("step_numbers: norm, clipping, bias and skip of a step", "[kernels]") {
  const double partials[] = {9, 16};  // norm 5
  const float loss = 2;
  const StepRates rates{0.01f, 2, 0};
  const GroupRates groups{2, {{1, {0.9f, 0.95f}}, {0.5f, {}}}};
  StepNumbers both[2];
  StepNumbers& numbers = both[0];
  float norm = 0;
  std::int32_t skipped = 0;
  const auto fill = [&](float clip, LossScaleState* scaling, double factor) {
    const double scaled[] = {partials[0] * factor, partials[1] * factor};
    step_numbers(CpuStream{}, {both, &norm, scaled, 2, &loss, clip, &rates, groups, nullptr, &skipped, scaling});
  };
  fill(0, nullptr, 1);
  CHECK(norm == 5);
  CHECK(numbers.gradient_scale == 1);
  CHECK(numbers.bias[0] == Approx(1 - 0.81));
  CHECK(numbers.bias[1] == Approx(1 - 0.9025));
  CHECK(numbers.bias[2] == 1);  // without a beta
  CHECK(numbers.lr == 0.01f);
  CHECK(numbers.step == 2);
  CHECK(both[1].lr == 0.005f);
  CHECK(both[1].bias[0] == 1);
  CHECK(both[1].gradient_scale == 1);
  CHECK(numbers.skip == 0);
  fill(1, nullptr, 1);
  CHECK(numbers.gradient_scale == Approx(0.2));

  const float none_counts = 0, some_count = 1.5f;
  for (const float* const weight : {&none_counts, &some_count}) {
    for (const bool scales : {false, true}) {
      LossScaleState scaling{1, 7};
      skipped = 1;
      step_numbers(CpuStream{},
                   {both, &norm, partials, 2, &loss, 0, &rates, groups, weight, &skipped, scales ? &scaling : nullptr});
      CHECK(numbers.skip == (weight == &none_counts ? 1 : 0));
      CHECK(numbers.bias[0] == Approx(0.1));
      CHECK(skipped == (weight == &none_counts ? 2 : 1));
      CHECK(scaling.scale == 1);
      CHECK(scaling.steps == (scales && weight == &some_count ? 8 : 7));
    }
  }

  LossScaleState scaling{1024, 7};
  skipped = 1;
  fill(1, &scaling, 1024 * 1024.0);
  CHECK(norm == 5);
  CHECK(numbers.gradient_scale == Approx(0.2 / 1024));
  CHECK(numbers.bias[0] == Approx(0.1));  // the first update: the other step was skipped
  CHECK(scaling.scale == 1024);
  CHECK(scaling.steps == 8);

  scaling.steps = kScaleSteps - 1;
  fill(1, &scaling, 1);
  CHECK(scaling.scale == 2048);
  CHECK(scaling.steps == 0);

  for (const double factor : {HUGE_VAL, std::nan("")}) {
    for (const bool scales : {false, true}) {
      scaling = {4, 3}, skipped = 0;
      fill(1, scales ? &scaling : nullptr, factor);
      CHECK(numbers.skip == 1);
      CHECK(scaling.scale == (scales ? 2 : 4));
      CHECK(scaling.steps == (scales ? 0 : 3));
      CHECK(skipped == 1);
    }
  }
  scaling = {1, 3};
  fill(1, &scaling, HUGE_VAL);
  CHECK(scaling.scale == 1);

  scaling = {0x1p127f, kScaleSteps + 5}, skipped = 9;  // doubling would overflow; more were skipped than counted
  fill(1, &scaling, 0);
  CHECK(scaling.scale == 0x1p127f);
  CHECK(scaling.steps == 0);
  CHECK(numbers.bias[0] == Approx(0.1));
}

TEST_CASE("keep_loss: the loss in f32, or NaN with a bad id", "[kernels]") {
  const std::uint64_t none = 0, bad = word_of({7, 1, -5});
  const float single = 2.5f;
  const double exact = 1.0 / 3;
  float kept = 0;
  keep_loss(CpuStream{}, &kept, DType::f32, &single, nullptr);
  CHECK(kept == 2.5f);
  keep_loss(CpuStream{}, &kept, DType::f64, &exact, &none);
  CHECK(kept == static_cast<float>(exact));
  keep_loss(CpuStream{}, &kept, DType::f32, &single, &bad);
  CHECK(std::isnan(kept));
}
