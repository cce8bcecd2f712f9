// Generation's kernels on CUDA compared with the CPU: sampling tokens, and skinny matmuls with constant weights.
#include <array>
#include <cmath>

#include "kernels/gemm.h"
#include "kernels/on_both.h"
#include "kernels/sample_tokens.h"
#include "kernels/skinny_matmul.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

struct SampleCase {
  double temperature = 1;
  Size top_k = 0;
  double top_p = 1, min_p = 0, penalty = 1;
};

// The state of the rows on a device: ids, samples, lengths (i32) and the seen tokens.
template <class Bytes>
SampleTokens call_of(const SampleCase& c, DType dtype, Size R, Size V, const void* logits, Bytes* ids, Bytes* seen) {
  SampleTokens call{dtype, R, V, logits, c.temperature, c.top_k, c.top_p, c.min_p, c.penalty};
  call.key = derive_key(7, "sample"), call.per_prompt = 2, call.most_length = 1000;
  call.ids_R = reinterpret_cast<std::int32_t*>(ids);
  call.samples_R = call.ids_R + R, call.lengths_R = call.ids_R + 2 * R;
  if (c.penalty != 1) call.seen_RV = reinterpret_cast<std::uint8_t*>(seen);
  return call;
}

// norm(a) b^T as SkinnyMatmul describes it, in f64.
std::vector<double> normed_matmul(const SkinnyMatmul& p, const Array& a, const Array& b, const Array& norm_w,
                                  const Array& bias) {
  std::vector<double> d;
  for (Size m = 0; m < p.M; ++m) {
    double squares = 0;
    for (Size k = 0; k < p.K; ++k) squares += a[m * p.K + k] * a[m * p.K + k];
    const double rstd = 1 / std::sqrt(squares / static_cast<double>(p.K) + static_cast<double>(p.norm_eps));
    const auto dot = [&](Size n) {
      double sum = 0;
      for (Size k = 0; k < p.K; ++k) sum += a[m * p.K + k] * rstd * norm_w[k] * b[n * p.K + k];
      return sum;
    };
    for (Size n = 0; n < p.N; ++n) {
      const double x = dot(n);
      d.push_back(p.gated ? x / (1 + std::exp(-x)) * dot(p.N + n) : x + bias[n]);
    }
  }
  return d;
}

}  // namespace

TEST_CASE("cuda: the tokens that the CPU samples", "[cuda]") {
  if (!has_gpu()) return;
  const Size R = 3;
  const std::array<SampleCase, 9> cases{
      {{},
       {.temperature = 0},
       {.top_k = 1},
       {.temperature = 0.7, .top_k = 50, .top_p = 0.9},
       {.temperature = 2, .top_p = 0.5},
       {.min_p = 0.3},
       {.temperature = 1.5, .top_k = 200, .top_p = 0.95, .min_p = 0.05, .penalty = 1.3},
       {.temperature = 0, .penalty = 5},
       {.temperature = 100, .top_k = 650}}};
  int sampled = 0, different = 0;
  for (const DType dtype : kFloats) {
    for (const Size V : {61, 1024, 5003, 128256}) {
      for (const SampleCase& c : cases) {
        CAPTURE(dtype_name(dtype), V, c.temperature, c.top_k, c.top_p, c.min_p, c.penalty);
        Array logits = Array::random(dtype, R * V, static_cast<std::uint64_t>(V));
        for (Size i = 0; i < R * V; ++i) logits.set(i, i % 7 == 0 ? 9 * logits[i] : 3 * logits[i]);
        Array state(DType::f32, 3 * R), seen(DType::f32, (R * V + 3) / 4);  // bytes: f32 zeros
        DeviceArray logits_there(logits), state_there(state), seen_there(seen);
        for (int round = 0; round < 8; ++round) {
          sample_tokens(CpuStream{}, call_of(c, dtype, R, V, logits.data(), static_cast<std::byte*>(state.data()),
                                             static_cast<std::byte*>(seen.data())));
          sample_tokens(gpu_stream(),
                        call_of(c, dtype, R, V, logits_there.data(), static_cast<std::byte*>(state_there.data()),
                                static_cast<std::byte*>(seen_there.data())));
          Array found(DType::f32, 3 * R);
          state_there.read(found);
          const auto *const ours = static_cast<const std::int32_t*>(found.data()), *const expected =
                                                                                       static_cast<const std::int32_t*>(
                                                                                           state.data());
          for (Size r = 0; r < R; ++r) {
            ++sampled, different += ours[r] != expected[r];
            if (c.temperature == 0) CHECK(ours[r] == expected[r]);
            CHECK(ours[R + r] == expected[R + r]);
            CHECK(ours[2 * R + r] == expected[2 * R + r]);
          }
          if (ours[0] != expected[0] || ours[1] != expected[1] || ours[2] != expected[2]) break;  // seen differs now
        }
      }
    }
  }
  CAPTURE(sampled);
  CHECK(different <= 3);  // weights in f32: a number closer than 1e-7 to a bound may fall on its other side
}

TEST_CASE("cuda: equal logits are sampled by their number", "[cuda]") {
  if (!has_gpu()) return;
  const Size V = 100000;
  Array logits(DType::bf16, V, 1.5), state(DType::f32, 3);
  DeviceArray logits_there(logits), state_there(state);
  for (int round = 0; round < 20; ++round) {
    SampleTokens call = call_of<std::byte>({}, DType::bf16, 1, V, logits_there.data(),
                                           static_cast<std::byte*>(state_there.data()), nullptr);
    const float uniform = sample_number(call.key, 0, 0, static_cast<std::uint64_t>(round));
    sample_tokens(gpu_stream(), call);
    state_there.read(state);
    const std::int32_t id = *static_cast<const std::int32_t*>(state.data());
    CHECK(std::abs(id - static_cast<std::int32_t>(uniform * static_cast<float>(V))) <= 1);
  }
}

TEST_CASE("cuda: an infinite logit is sampled, as on the CPU", "[cuda]") {
  if (!has_gpu()) return;
  for (const Size V : {61, 128256}) {
    Array logits = Array::random(DType::f32, V, 3), state(DType::f32, 3);
    logits.set(5, HUGE_VAL);
    DeviceArray logits_there(logits), state_there(state);
    for (const SampleCase& c :
         {SampleCase{}, SampleCase{.top_k = 3}, SampleCase{.top_p = 0.5}, SampleCase{.min_p = 0.5}}) {
      CAPTURE(V, c.top_k, c.top_p, c.min_p);
      sample_tokens(gpu_stream(), call_of<std::byte>(c, DType::f32, 1, V, logits_there.data(),
                                                     static_cast<std::byte*>(state_there.data()), nullptr));
      Array found(DType::f32, 3);
      state_there.read(found);
      sample_tokens(CpuStream{}, call_of<std::byte>(c, DType::f32, 1, V, logits.data(),
                                                    static_cast<std::byte*>(state.data()), nullptr));
      CHECK(*static_cast<const std::int32_t*>(state.data()) == 5);
      CHECK(*static_cast<const std::int32_t*>(found.data()) == 5);
    }
  }
}

TEST_CASE("cuda: a row without a finite logit is told apart, as on the CPU", "[cuda]") {
  if (!has_gpu()) return;
  const Size R = 6;
  // The logit of each row's last token but one, and that of all others.
  const double nan = std::nan(""), inf = HUGE_VAL;
  const std::array<std::array<double, 2>, R> rows{{{nan, nan}, {nan, -inf}, {nan, inf}, {2, nan}, {1, -inf}, {inf, 1}}};
  for (const Size V : {61, 128256}) {
    Array logits(DType::f32, R * V), state(DType::f32, 4 * R), seen(DType::f32, (R * V + 3) / 4);
    for (Size i = 0; i < R * V; ++i) {
      logits.set(i, rows[static_cast<std::size_t>(i / V)][i % V == V - 2 ? 0 : 1]);
    }
    DeviceArray logits_there(logits);
    for (const SampleCase& c : {SampleCase{}, SampleCase{.temperature = 0}, SampleCase{.top_k = 3, .top_p = 0.5},
                                SampleCase{.min_p = 0.5}, SampleCase{.penalty = 2}}) {
      CAPTURE(V, c.temperature, c.top_k, c.min_p, c.penalty);
      DeviceArray state_there(state), seen_there(seen);
      SampleTokens call = call_of(c, DType::f32, R, V, logits_there.data(), static_cast<std::byte*>(state_there.data()),
                                  static_cast<std::byte*>(seen_there.data()));
      call.found_R = call.ids_R + 3 * R;
      sample_tokens(gpu_stream(), call);
      Array found(DType::f32, 4 * R);
      state_there.read(found);
      const auto* const ids = static_cast<const std::int32_t*>(found.data());
      const auto own = static_cast<std::int32_t>(V - 2);
      CHECK(std::vector<std::int32_t>(ids, ids + R) == std::vector<std::int32_t>{0, 0, 0, own, own, own});
      CHECK(std::vector<std::int32_t>(ids + 3 * R, ids + 4 * R) ==
            std::vector<std::int32_t>{-1, -1, -1, own, own, own});
    }
  }
}

TEST_CASE("cuda: matmuls of few rows with constant weights, and each row alone", "[cuda]") {
  for_floats([](DType dtype) {
    for (const Size M : {1, 2, 3, 4, 7, 8}) {
      for (const auto& [N, K] : {std::pair<Size, Size>{1, 64}, {7, 8}, {33, 2048}, {2049, 520}, {130, 8192}}) {
        for (const int terms : {0, 1, 2, 3}) {
          CAPTURE(M, N, K, terms, dtype_name(dtype));
          OnBoth both;
          const int a = both.array(dtype, M * K), b = both.array(dtype, N * K), d = both.array(dtype, M * N),
                    bias = both.array(dtype, N), add = both.array(dtype, M * N);
          both.by_row(d, N > 16 ? N : M * N);
          both.run(
              [&, N = N, K = K](auto s, auto at) {
                Gemm g{.M = M, .N = N, .K = K, .a = at(a), .b = at(b), .d = at(d), .transpose_b = true};
                g.dtype = g.out = dtype, g.settings.constant_weights = true;
                if (terms & 1) g.bias_N = at(bias);
                if (terms & 2) g.add_MN = at(add);
                gemm(s, g);
              },
              4);
        }
      }
    }
  });
  if (!has_gpu()) return;
  const Size N = 300, K = 4096;
  const Array a = Array::random(DType::bf16, 8 * K, 1), b = Array::random(DType::bf16, N * K, 2);
  DeviceArray a_there(a), b_there(b), all(8 * N * 2), one(N * 2);
  Array together(DType::bf16, 8 * N), alone(DType::bf16, N);
  Gemm g{.M = 8, .N = N, .K = K, .a = a_there.data(), .b = b_there.data(), .d = all.data(), .transpose_b = true};
  g.dtype = g.out = DType::bf16, g.settings.constant_weights = true;
  gemm(gpu_stream(), g);
  all.read(together);
  for (Size m = 0; m < 8; ++m) {
    Gemm row = g;
    row.M = 1, row.a = static_cast<std::byte*>(a_there.data()) + m * K * 2, row.d = one.data();
    gemm(gpu_stream(), row);
    one.read(alone);
    for (Size n = 0; n < N; ++n) REQUIRE(together[m * N + n] == alone[n]);
  }
}

TEST_CASE("cuda: matmuls of few rows that begin with a norm, and gated ones, and each row alone", "[cuda]") {
  if (!has_gpu()) return;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Size pack = 16 / dtype_bytes(dtype);
    for (const Size M : {1, 2, 3, 8}) {
      for (const auto& [N, packs] : {std::pair<Size, Size>{1, 1}, {7, 33}, {130, 128}, {33, 300}}) {
        for (const bool gated : {false, true}) {
          CAPTURE(M, N, packs, gated, dtype_name(dtype));
          const Size K = packs * pack, rows = gated ? 2 * N : N;
          const Array a = Array::random(dtype, M * K, 1), b = Array::random(dtype, rows * K, 2),
                      norm_w = Array::random(dtype, K, 3), bias = Array::random(dtype, N, 4);
          DeviceArray a_there(a), b_there(b), norm_there(norm_w), bias_there(bias), d_there(M * N * dtype_bytes(dtype));
          SkinnyMatmul p{dtype, M, N, K, d_there.data(), a_there.data(), b_there.data()};
          p.bias_N = gated ? nullptr : bias_there.data(), p.norm_w_K = norm_there.data(), p.norm_eps = 0.01f;
          p.gated = gated;
          skinny_matmul(gpu_stream(), p);
          Array d(dtype, M * N), alone(dtype, N);
          d_there.read(d);
          CHECK(error_by_row(d, normed_matmul(p, a, b, norm_w, bias), N > 16 ? N : M * N) <= 2 * tolerance(dtype));
          for (Size m = 0; m < M; ++m) {
            SkinnyMatmul row = p;
            row.M = 1, row.a_MK = static_cast<std::byte*>(a_there.data()) + m * K * dtype_bytes(dtype);
            DeviceArray one(N * dtype_bytes(dtype));
            row.d_MN = one.data();
            skinny_matmul(gpu_stream(), row);
            one.read(alone);
            for (Size n = 0; n < N; ++n) CHECK(alone[n] == d[m * N + n]);
          }
        }
      }
    }
  }
}
