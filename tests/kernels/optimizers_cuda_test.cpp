// The kernels of optimizers on CUDA, compared with the CPU.
#include <cmath>

#include "kernels/adamw.h"
#include "kernels/ema.h"
#include "kernels/muon.h"
#include "kernels/on_both.h"
#include "kernels/step_numbers.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

constexpr Size kSizes[] = {1, 7, 4096, 100'003};

}  // namespace

TEST_CASE("cuda: AdamW with bf16 that is rounded stochastically", "[cuda]") {
  if (!has_gpu()) return;
  for (const Size element : {0, 16, 3}) {  // the last one is not aligned to a pack of eight
    const RoundingSegments segments{2, {{0, element, 11}, {1000, 0, 12}}};
    for (const auto& [w_dtype, state_dtype] :
         {std::pair{DType::f32, DType::bf16}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}}) {
      for (const Size n : kSizes) {
        OnBoth both;
        const int w = both.array(w_dtype, n), m = both.array(state_dtype, n), v = both.constant(state_dtype, n, 0.01),
                  g = both.array(DType::f32, n),
                  numbers = both.words(StepNumbers{.lr = 0.01f, .bias = {0.1f, 0.05f, 1, 1}, .step = 12});
        both.run([&, w_dtype = w_dtype, state_dtype = state_dtype](auto s, auto at) {
          AdamWRange range{at(w), at(m), at(v), static_cast<float*>(at(g)), nullptr, DType::bf16, n, n / 2};
          range.w_dtype = w_dtype, range.state_dtype = state_dtype, range.rounding = &segments;
          adamw_update(s, range, {0.9f, 0.95f, 1e-8f, 0.1f}, static_cast<const StepNumbers*>(at(numbers)));
        });
      }
    }
  }
}

TEST_CASE("cuda: Muon's directions, normalisation and updates", "[cuda]") {
  if (!has_gpu()) return;
  const RoundingSegments segments{2, {{0, 16, 11}, {1000, 0, 12}}};
  for (const DType state : {DType::f32, DType::bf16}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const Size n : kSizes) {
        for (const float skip : {0.0f, 1.0f}) {
          OnBoth both;
          const int momentum = both.array(state, n), gradient = both.array(DType::f32, n),
                    direction = both.array(dtype, n), squares = both.exact(both.constant(DType::f64, 1, 7)),
                    unit = both.array(dtype, n), w = both.array(state, n), copy = both.array(DType::f16, n),
                    numbers = both.words(StepNumbers{.lr = 0.01f, .gradient_scale = 0.5f, .skip = skip, .step = 12});
          both.run([&](auto s, auto at) {
            const auto* const values = static_cast<const StepNumbers*>(at(numbers));
            muon_direction(s,
                           {at(momentum), state, static_cast<float*>(at(gradient)), at(direction), dtype, n, &segments},
                           0.95f, values);
            muon_normalise(s, dtype, at(unit), at(direction), n, static_cast<const double*>(at(squares)));
            void* const copied = state == DType::f32 ? at(copy) : nullptr;
            muon_update(s, {at(w), state, at(unit), dtype, copied, DType::f16, n, &segments}, 0.1f, values);
          });
        }
      }
    }
  }
}

TEST_CASE("cuda: numbers added to diagonals", "[cuda]") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Size N : {1, 37, 1600}) {
      OnBoth both;
      const int x = both.array(dtype, 2 * N * N);
      both.run([&](auto s, auto at) { add_to_diagonal(s, dtype, at(x), 2, N, -1.25f); });
    }
  }
}

TEST_CASE("cuda: the average of weights", "[cuda]") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Size n : kSizes) {
      OnBoth both;
      const int average = both.array(DType::f32, n), w = both.array(dtype, n),
                numbers = both.words(StepNumbers{.bias = {1, 0.19f, 1, 1}});
      both.run([&](auto s, auto at) {
        ema_update(s, static_cast<float*>(at(average)), dtype, at(w), n, 0.9, 1,
                   static_cast<const StepNumbers*>(at(numbers)));
      });
    }
  }
}

TEST_CASE("cuda: AdamW", "[cuda]") {
  if (!has_gpu()) return;
  constexpr Size kNumberWords = sizeof(StepNumbers) / sizeof(float);
  for (const Size n : kSizes) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      for (const auto& [scale, partial] : {std::pair{0.0f, 3.0}, {8.0f, 3.0}, {8.0f, HUGE_VAL}}) {  // 0: unscaled
        OnBoth both;
        const int w = both.array(DType::f32, n), m = both.array(DType::f32, n), v = both.constant(DType::f32, n, 0.01),
                  g = both.array(DType::f32, n), copy = both.array(dtype, n), loss = both.constant(DType::f32, 1, 2),
                  norm = both.words(1.0f), partials = both.exact(both.constant(DType::f64, 5, partial)),
                  numbers = both.array(DType::f32, kNumberWords), rates = both.words(StepRates{0.01f, 12, 0}),
                  skipped = both.words(std::int32_t{2}), scaling = both.words(LossScaleState{scale, kScaleSteps - 1});
        both.run([&](auto s, auto at) {
          auto* const values = static_cast<StepNumbers*>(at(numbers));
          const auto f32 = [&](int i) { return static_cast<float*>(at(i)); };
          step_numbers(s, {values, f32(norm), static_cast<const double*>(at(partials)), 5, f32(loss), 1.0f,
                           static_cast<const StepRates*>(at(rates)), GroupRates{1, {{1, {0.9f, 0.95f}}}}, nullptr,
                           static_cast<std::int32_t*>(at(skipped)),
                           scale > 0 ? static_cast<LossScaleState*>(at(scaling)) : nullptr});
          adamw_update(s, {f32(w), f32(m), f32(v), f32(g), at(copy), dtype, n, n / 2}, {0.9f, 0.95f, 1e-8f, 0.1f},
                       values);
        });
      }
    }
  }
}
