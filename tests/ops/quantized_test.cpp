// linear() in e4m3: output and gradients compared with bf16 and f64, the tensors that it keeps, and the cases in which
// it does not apply.
#include <cmath>
#include <string_view>

#include "libtrain/memory/memory.h"
#include "ops/gradient_check.h"

using namespace lt;
using namespace lt_test;

namespace {

// 10 log10 of signal over noise.
double decibels(const Tensor& values, const std::vector<double>& expected) {
  const std::vector<double> actual = values.to_vector<double>();
  double signal = 0, noise = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    signal += expected[i] * expected[i], noise += std::pow(actual[i] - expected[i], 2);
  }
  return 10 * std::log10(signal / noise);
}

struct Matmuls {
  Tensor y, dx, dw, dbias, dresidual;
};

using Producer = Tensor (*)(const Tensor&);

// Runs linear() on what `produce` makes of rows that differ in size, and the gradients for a fixed dy.
Matmuls matmuls(bool fp8, bool keeps_values, Producer produce, Size M, Size N, Size K, std::string_view frozen = {}) {
  std::vector<double> x_values = normal_values(M * K, 1), dy_values = normal_values(M * N, 5);
  for (Size i = 0; i < M * K; ++i) x_values[static_cast<std::size_t>(i)] *= std::exp2(i / K % 5 - 1);
  for (Size i = 0; i < M * N; ++i) dy_values[static_cast<std::size_t>(i)] *= std::exp2(-14 - i / N % 5);
  const auto leaf = [&](std::string_view name, const std::vector<double>& values, const Shape& shape) {
    Tensor tensor = ops::cast(Tensor::from(values, shape), DType::bf16);
    if (name != frozen) tensor.set_requires_grad();
    return tensor;
  };
  const Tensor x = leaf("x", x_values, {M, K}), w = leaf("w", normal_values(N * K, 2), {N, K}),
               bias = leaf("bias", normal_values(N, 3), {N}),
               residual = leaf("residual", normal_values(M * N, 4), {M, N});
  const Tensor dy = ops::cast(Tensor::from(dy_values, {M, N}), DType::bf16);
  Context context;
  context.kernels.fp8 = fp8, context.in_block = true;
  const ContextScope scope(context);
  Tape tape(keeps_values);
  Matmuls result;
  {
    const TapeScope recording(&tape);
    result.y = ops::linear(produce(x), w, bias, residual);
    tape.release_values({result.y});
    backward(tape, ops::sum(ops::mul(result.y, dy)));
  }
  const auto gradient = [](const Tensor& leaf) { return leaf.requires_grad() ? leaf.gradient() : Tensor(); };
  result.dx = gradient(x), result.dw = gradient(w), result.dbias = gradient(bias);
  result.dresidual = gradient(residual);
  return result;
}

}  // namespace

TEST_CASE("linear in e4m3: 25 dB above the difference to bf16, with values recomputed or not", "[ops]") {
  const Producer scaled = [](const Tensor& x) { return ops::scale(x, 1); };
  const Producer normed = [](const Tensor& x) {
    return ops::rms_norm(
        x,
        ops::cast(Tensor::from(std::vector<double>(static_cast<std::size_t>(x.dim(-1)), 1.0), {x.dim(-1)}),
                  DType::bf16),
        1e-5f);
  };
  for (const Producer produce : {scaled, normed, Producer(ops::gelu), Producer(ops::relu)}) {
    for (const auto& [M, N, K] : {std::tuple<Size, Size, Size>{64, 96, 128}, {256, 32, 512}}) {
      CAPTURE(M, N, K);
      const Matmuls exact = matmuls(false, true, produce, M, N, K), fp8 = matmuls(true, true, produce, M, N, K),
                    again = matmuls(true, false, produce, M, N, K);
      for (const auto& [actual, expected] :
           {std::pair{fp8.y, exact.y}, {fp8.dx, exact.dx}, {fp8.dw, exact.dw}, {fp8.dbias, exact.dbias}}) {
        const double signal = decibels(actual, expected.to_vector<double>());
        CHECK(signal > 25);
        CHECK(signal < 60);  // it did quantize
      }
      CHECK(fp8.dresidual.to_vector<double>() == exact.dresidual.to_vector<double>());
      for (const auto& [a, b] :
           {std::pair{fp8.y, again.y}, {fp8.dx, again.dx}, {fp8.dw, again.dw}, {fp8.dbias, again.dbias}}) {
        CHECK(a.to_vector<double>() == b.to_vector<double>());
      }
    }
  }
}

TEST_CASE("linear in e4m3: where input or weight has no gradient, the other's is the same", "[ops]") {
  for (const bool keeps_values : {true, false}) {
    const Matmuls all = matmuls(true, keeps_values, ops::gelu, 64, 96, 128);
    const Matmuls no_dx = matmuls(true, keeps_values, ops::gelu, 64, 96, 128, "x");
    const Matmuls no_dw = matmuls(true, keeps_values, ops::gelu, 64, 96, 128, "w");
    CHECK_FALSE(no_dx.dx.defined());
    CHECK_FALSE(no_dw.dw.defined());
    CHECK(no_dx.dw.to_vector<double>() == all.dw.to_vector<double>());
    CHECK(no_dw.dx.to_vector<double>() == all.dx.to_vector<double>());
    CHECK(no_dx.dbias.to_vector<double>() == all.dbias.to_vector<double>());  // beside a frozen weight: not quantized
    CHECK(no_dx.dresidual.to_vector<double>() == all.dresidual.to_vector<double>());
    CHECK(no_dw.dresidual.to_vector<double>() == all.dresidual.to_vector<double>());
  }
}

TEST_CASE("linear in e4m3: only in blocks, in bf16, and for multiples of 16", "[ops]") {
  std::vector<std::string> notices;
  const auto is_quantized = [&](bool in_block, DType dtype, Size M, Size K) {
    const Tensor x = ops::cast(normal({M, K}, 1), dtype), w = ops::cast(normal({32, K}, 2), dtype);
    const std::vector<double> plain = ops::linear(x, w).to_vector<double>();
    Context context;
    context.kernels.fp8 = true, context.in_block = in_block, context.notices = &notices;
    const ContextScope scope(context);
    return ops::linear(x, w).to_vector<double>() != plain;
  };
  CHECK(is_quantized(true, DType::bf16, 16, 32));
  CHECK_FALSE(is_quantized(false, DType::bf16, 16, 32));
  CHECK_FALSE(is_quantized(true, DType::f32, 16, 32));
  CHECK(notices.empty());
  CHECK_FALSE(is_quantized(true, DType::bf16, 15, 32));
  CHECK_FALSE(is_quantized(true, DType::bf16, 16, 40));
  REQUIRE(notices.size() == 2);
  CHECK(notices[0] ==
        "matmuls of 15 x 32 x 32 run in bf16: FP8 takes sizes in multiples of 16, inputs and outputs up to 131072");
}

TEST_CASE("gelu_ffn in e4m3 is its three operations", "[ops]") {
  const auto of = [](Size R, Size C, std::uint64_t key) { return ops::cast(normal({R, C}, key), DType::bf16); };
  const Tensor x = of(32, 64, 1), up = of(128, 64, 2), down = of(64, 128, 3);
  Context context;
  context.kernels.fp8 = true, context.in_block = true;
  const ContextScope scope(context);
  CHECK(ops::gelu_ffn(x, up, {}, down, {}, x).to_vector<double>() ==
        ops::linear(ops::gelu(ops::linear(x, up)), down, {}, x).to_vector<double>());
}
