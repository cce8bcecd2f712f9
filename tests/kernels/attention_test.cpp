// Attention against the plain formula in f64: forward, backward and generation, over dtypes, lengths and head groups.
#include "kernels/attention.h"

#include <omp.h>

#include "kernels/array.h"
#include "kernels/attention_options.h"
#include "kernels/documents.h"
#include "kernels/tolerance.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;
using kernels::AttentionShape;
using test::Array;

namespace {

using Values = std::vector<double>;

struct AttentionReference {
  Values out, lse, dqkv;
};

std::size_t at(Size i) { return static_cast<std::size_t>(i); }

using Starts = std::vector<std::int32_t>;

const std::int32_t* pointer_to(const Starts& starts) { return starts.empty() ? nullptr : starts.data(); }

// The T x T formula, one row of probabilities at a time. Uses `dout` for dqkv unless it is empty.
AttentionReference reference(const AttentionShape& s, const Values& qkv, const Values& dout, double scale,
                             const Starts& starts = {}) {
  AttentionReference r{Values(at(s.B * s.T * s.H * s.D)), Values(at(s.B * s.H * s.T)),
                       Values(dout.empty() ? 0 : qkv.size())};
  for (Size b = 0; b < s.B; ++b) {
    for (Size h = 0; h < s.H; ++h) {
      const auto element = [&](Size t, Size head, Size d) { return at((b * s.T + t) * s.row() + head * s.D + d); };
      const Size k_head = s.H + h * s.G / s.H, v_head = k_head + s.G;
      for (Size t = 0; t < s.T; ++t) {
        Values p(at(t + 1));
        const Size start = starts.empty() ? 0 : starts[at(b * s.T + t)];
        const Size first = s.window > 0 ? std::max(t - s.window + 1, start) : start;
        double max = -HUGE_VAL, sum = 0;
        for (Size j = first; j <= t; ++j) {
          for (Size d = 0; d < s.D; ++d) p[at(j)] += scale * qkv[element(t, h, d)] * qkv[element(j, k_head, d)];
          max = std::max(max, p[at(j)]);
        }
        for (Size j = 0; j <= t; ++j) sum += p[at(j)] = j < first ? 0 : std::exp(p[at(j)] - max);
        for (double& x : p) x /= sum;
        r.lse[at((b * s.H + h) * s.T + t)] = max + std::log(sum);
        const Size out_at = ((b * s.T + t) * s.H + h) * s.D;
        for (Size j = 0; j <= t; ++j) {
          for (Size d = 0; d < s.D; ++d) r.out[at(out_at + d)] += p[at(j)] * qkv[element(j, v_head, d)];
        }
        if (dout.empty()) continue;
        double delta = 0;
        for (Size d = 0; d < s.D; ++d) delta += dout[at(out_at + d)] * r.out[at(out_at + d)];
        for (Size j = 0; j <= t; ++j) {
          double dp = 0;
          for (Size d = 0; d < s.D; ++d) dp += dout[at(out_at + d)] * qkv[element(j, v_head, d)];
          const double ds = scale * p[at(j)] * (dp - delta);
          for (Size d = 0; d < s.D; ++d) {
            r.dqkv[element(t, h, d)] += ds * qkv[element(j, k_head, d)];
            r.dqkv[element(j, k_head, d)] += ds * qkv[element(t, h, d)];
            r.dqkv[element(j, v_head, d)] += p[at(j)] * dout[at(out_at + d)];
          }
        }
      }
    }
  }
  return r;
}

struct AttentionRun {
  Array out, lse, dqkv;
};

AttentionRun run(const AttentionShape& s, DType dtype, const Array& qkv, const Array& dout, float scale,
                 const Starts& starts = {}) {
  AttentionRun r{Array(dtype, s.B * s.T * s.H * s.D, 99), Array(kernels::gradient_dtype(dtype), s.B * s.H * s.T, 99),
                 Array(dtype, qkv.count(), 99)};
  kernels::attention_forward(CpuStream{}, {.dtype = dtype,
                                           .shape = s,
                                           .scale = scale,
                                           .out_BTHD = r.out.data(),
                                           .lse_BHT = r.lse.data(),
                                           .qkv = qkv.data(),
                                           .starts_BT = pointer_to(starts)});
  Array workspace(DType::f64, kernels::attention_backward_workspace(DeviceType::cpu, dtype, s, false) / 8 + 1);
  kernels::attention_backward(CpuStream{}, {.dtype = dtype,
                                            .shape = s,
                                            .scale = scale,
                                            .dqkv = r.dqkv.data(),
                                            .dout_BTHD = dout.data(),
                                            .qkv = qkv.data(),
                                            .out_BTHD = r.out.data(),
                                            .lse_BHT = r.lse.data(),
                                            .workspace = workspace.data(),
                                            .starts_BT = pointer_to(starts)});
  return r;
}

}  // namespace

TEST_CASE("attention: forward and backward agree with f64", "[kernels]") {
  const AttentionShape shapes[] = {{1, 1, 1, 1, 1},
                                   {2, 5, 3, 3, 7},
                                   {1, 64, 2, 2, 32},
                                   {2, 65, 4, 2, 16},
                                   {1, 130, 6, 2, 40},
                                   {1, 200, 2, 1, 64},
                                   {1, 97, 2, 2, 128},
                                   {3, 63, 4, 1, 2},
                                   // Windows: of one token, inside a block, over blocks, of all.
                                   {1, 70, 2, 1, 16, 1},
                                   {2, 130, 4, 2, 16, 5},
                                   {1, 200, 2, 1, 40, 64},
                                   {1, 300, 2, 2, 16, 100},
                                   {1, 200, 2, 1, 16, 129},
                                   {2, 65, 2, 2, 16, 65}};
  for (const AttentionShape& s : shapes) {
    for (const DType dtype : test::kFloats) {
      CAPTURE(s.B, s.T, s.H, s.G, s.D, s.window, dtype_name(dtype));
      const float scale = 1 / std::sqrt(static_cast<float>(s.D));
      const Array qkv = Array::random(dtype, s.B * s.T * s.row(), 1);
      const Array dout = Array::random(dtype, s.B * s.T * s.H * s.D, 2);
      const AttentionReference expected = reference(s, qkv.values(), dout.values(), scale);
      const AttentionRun found = run(s, dtype, qkv, dout, scale);
      CHECK(test::error_of(found.out, expected.out) <= test::tolerance(dtype));
      CHECK(test::error_of(found.lse, expected.lse) <= test::tolerance(kernels::gradient_dtype(dtype)));
      // In bf16 the backward reads a rounded output, so delta is off by as much.
      CHECK(test::error_of(found.dqkv, expected.dqkv) <= (dtype_bytes(dtype) == 2 ? 2 : 1) * test::tolerance(dtype));
    }
  }
}

TEST_CASE("attention: with documents, forward and backward agree with f64", "[kernels]") {
  struct Case {
    AttentionShape shape;
    std::vector<Size> lengths;
  };
  const Case cases[] = {{{1, 1, 1, 1, 1}, {1}},
                        {{2, 7, 3, 3, 7}, {1}},  // documents of one token alone
                        {{3, 65, 4, 2, 16}, {5, 1, 30}},
                        {{2, 200, 2, 1, 40}, {64, 1, 63}},  // starts at and beside the edges of blocks
                        {{2, 300, 2, 1, 32}, {150, 7}},     // whole blocks of another document
                        {{1, 130, 2, 2, 24}, {500}},        // one document
                        // A window within a document, and documents within a window.
                        {{2, 200, 2, 1, 16, 5}, {70, 3, 1}},
                        {{2, 200, 4, 2, 16, 100}, {120, 30}}};
  for (const auto& [s, lengths] : cases) {
    const Starts starts = test::document_starts(s.B, s.T, lengths);
    for (const DType dtype : test::kFloats) {
      CAPTURE(s.B, s.T, s.H, s.G, s.D, s.window, lengths, dtype_name(dtype));
      const float scale = 1 / std::sqrt(static_cast<float>(s.D));
      const Array qkv = Array::random(dtype, s.B * s.T * s.row(), 1);
      const Array dout = Array::random(dtype, s.B * s.T * s.H * s.D, 2);
      const AttentionReference expected = reference(s, qkv.values(), dout.values(), scale, starts);
      const AttentionRun found = run(s, dtype, qkv, dout, scale, starts);
      CHECK(test::error_of(found.out, expected.out) <= test::tolerance(dtype));
      CHECK(test::error_of(found.lse, expected.lse) <= test::tolerance(kernels::gradient_dtype(dtype)));
      CHECK(test::error_of(found.dqkv, expected.dqkv) <= (dtype_bytes(dtype) == 2 ? 2 : 1) * test::tolerance(dtype));
      if (lengths[0] < s.T) continue;
      const AttentionRun plain = run(s, dtype, qkv, dout, scale);
      CHECK((found.out.same_bits(plain.out) && found.lse.same_bits(plain.lse) && found.dqkv.same_bits(plain.dqkv)));
    }
  }
}

TEST_CASE("attention: large scores do not overflow", "[kernels]") {
  const AttentionShape s{1, 80, 1, 1, 8};
  for (const DType dtype : test::kFloats) {
    CAPTURE(dtype_name(dtype));
    Array qkv = Array::random(dtype, s.T * s.row(), 1);
    const Array dout = Array::random(dtype, s.T * s.D, 2);
    for (Size i = 0; i < qkv.count(); ++i) {
      if (i % s.row() < 2 * s.D) qkv.set(i, std::round(16 * qkv[i]));  // scores up to 2048, exact in every dtype
    }
    const AttentionReference expected = reference(s, qkv.values(), dout.values(), 1);
    const AttentionRun found = run(s, dtype, qkv, dout, 1);
    CHECK(test::error_of(found.out, expected.out) <= test::tolerance(dtype));
    // q and k of up to 16 amplify the rounding of delta and lse in the gradient.
    CHECK(test::error_of(found.dqkv, expected.dqkv) <= 256 * test::tolerance(dtype));
  }
}

TEST_CASE("attention: later tokens change nothing, bit for bit", "[kernels]") {
  const AttentionShape s{1, 150, 2, 1, 32};
  for (const DType dtype : test::kFloats) {
    Array qkv = Array::random(dtype, s.T * s.row(), 1);
    const Array dout = Array::random(dtype, s.T * s.H * s.D, 2);
    const AttentionRun before = run(s, dtype, qkv, dout, 0.2f);
    const Size cut = 77;
    for (Size i = cut * s.row(); i < qkv.count(); ++i) qkv.set(i, 3);
    const AttentionRun after = run(s, dtype, qkv, dout, 0.2f);
    Size differing = 0;
    for (Size i = 0; i < cut * s.H * s.D; ++i) differing += before.out[i] != after.out[i];
    CHECK(differing == 0);
    CHECK_FALSE(before.out.same_bits(after.out));
  }
}

TEST_CASE("attention: bits do not depend on the number of threads", "[kernels]") {
  const AttentionShape s{3, 100, 4, 2, 24};
  const int threads = omp_get_max_threads();
  for (const DType dtype : test::kFloats) {
    const Array qkv = Array::random(dtype, s.B * s.T * s.row(), 1);
    const Array dout = Array::random(dtype, s.B * s.T * s.H * s.D, 2);
    omp_set_num_threads(1);
    const AttentionRun one = run(s, dtype, qkv, dout, 0.2f);
    omp_set_num_threads(3);
    const AttentionRun three = run(s, dtype, qkv, dout, 0.2f);
    omp_set_num_threads(threads);
    CHECK(one.out.same_bits(three.out));
    CHECK(one.lse.same_bits(three.lse));
    CHECK(one.dqkv.same_bits(three.dqkv));
  }
}

TEST_CASE("attention: generation from a cache gives the rows of the whole sequence", "[kernels]") {
  const Size capacity = 75;
  std::vector<std::pair<DType, Size>> cases{{DType::f64, 13}};
  for (const DType dtype : test::kFloats) cases.push_back({dtype, 0});
  for (const auto& [dtype, window] : cases) {
    const AttentionShape s{2, 70, 4, 2, 20, window};
    const Size kv = s.G * s.D;
    const Array qkv = Array::random(dtype, s.B * s.T * s.row(), 1);
    const AttentionReference expected = reference(s, qkv.values(), {}, 0.2f);
    Array k(dtype, s.B * capacity * kv, 99), v(dtype, s.B * capacity * kv, 99);
    for (Size b = 0; b < s.B; ++b) {
      for (Size t = 0; t < s.T; ++t) {
        for (Size i = 0; i < kv; ++i) {
          const Size from = (b * s.T + t) * s.row() + s.H * s.D + i;
          k.set((b * capacity + t) * kv + i, qkv[from]);
          v.set((b * capacity + t) * kv + i, qkv[from + kv]);
        }
      }
    }
    for (const auto& [past, count] : {std::pair<Size, Size>{0, 70}, {69, 1}, {40, 7}}) {
      CAPTURE(dtype_name(dtype), window, past, count);
      AttentionShape part = s;
      part.T = count;
      Array q(dtype, s.B * count * s.row()), out(dtype, s.B * count * s.H * s.D, 99);
      Values rows;
      for (Size b = 0; b < s.B; ++b) {
        for (Size t = 0; t < count; ++t) {
          for (Size i = 0; i < s.row(); ++i) {
            q.set((b * count + t) * s.row() + i, qkv[(b * s.T + past + t) * s.row() + i]);
          }
          for (Size i = 0; i < s.H * s.D; ++i) rows.push_back(expected.out[at((b * s.T + past + t) * s.H * s.D + i)]);
        }
      }
      kernels::AttentionCached call{dtype, part, 0.2f, out.data(), q.data(), k.data(), v.data(), capacity, past};
      const std::vector<std::int32_t> pasts(static_cast<std::size_t>(s.B), static_cast<std::int32_t>(past));
      if (count == 1) call.past = 0, call.past_B = pasts.data();
      kernels::attention_cached(CpuStream{}, call);
      CHECK(test::error_of(out, rows) <= test::tolerance(dtype));
    }
  }
}

TEST_CASE("attention: blocks of keys are taken in pairs where that ends earlier, and few enough", "[kernels]") {
  const AttentionShape gpt2_124m{64, 1024, 12, 12, 64}, gpt2_1_5b{16, 1024, 25, 25, 64}, llama_1b{4, 4096, 32, 8, 64};
  CHECK_FALSE(kernels::hopper_takes_pairs(gpt2_124m, 132));
  CHECK_FALSE(kernels::hopper_takes_pairs(gpt2_1_5b, 132));
  CHECK(kernels::hopper_takes_pairs(llama_1b, 132));
  CHECK_FALSE(kernels::hopper_takes_pairs({4, 4096 + 256, 32, 8, 64}, 132));  // an odd number of blocks
  // 256 pairs of one head would wait for each other on 132 multiprocessors, 32 can run together.
  CHECK_FALSE(kernels::hopper_takes_pairs({1, 131072, 32, 8, 64}, 132));
  CHECK(kernels::hopper_takes_pairs({1, 16384, 32, 8, 64}, 132));
  for (const int multiprocessors : {114, 132}) {  // the pairs of attention_cuda_test.cpp
    CHECK(kernels::hopper_takes_pairs({31, 512, 9, 3, 64}, multiprocessors));
    CHECK(kernels::hopper_takes_pairs({21, 1024, 6, 2, 64}, multiprocessors));
    CHECK(kernels::hopper_takes_pairs({25, 512, 4, 2, 128}, multiprocessors));
  }
}

TEST_CASE("attention: the workspace of the backward is known without its device", "[kernels]") {
  const auto bytes = [](DType dtype, const AttentionShape& s, bool deterministic = false) {
    return kernels::attention_backward_workspace(DeviceType::cuda, dtype, s, deterministic);
  };
  const AttentionShape gpt2{4, 1000, 12, 12, 64}, llama{8, 4096, 32, 8, 128}, odd{3, 65, 2, 1, 7};
  const Size MiB = Size{1} << 20;
  for (const DType dtype : test::kFloats) {
    CHECK(kernels::attention_backward_workspace(DeviceType::cpu, dtype, gpt2, false) == 0);
    CHECK_THROWS_AS(kernels::attention_backward_workspace(DeviceType::meta, dtype, gpt2, false), InternalError);
    CHECK(bytes(dtype, odd) == 3 * 65 * 2 * (dtype == DType::f64 ? 8 : 4));  // own kernels: only delta
  }
  // With documents, cuDNN's offsets and lengths of the documents that may have 256 tokens, delta of the own kernels, dk
  // and dv, and what cudnn-frontend asks for: dq in f32 with rows of q, k and v, delta, and each query head's dk and dv
  // in f32.
  const auto documents = [](DType dtype, const AttentionShape& s, bool deterministic = false) {
    return kernels::attention_backward_workspace(DeviceType::cuda, dtype, s, deterministic, true);
  };
  const auto padded = [](Size n) { return (n + 255) / 256 * 256; };
  CHECK(documents(DType::bf16, gpt2) == padded((12 + 1) * 4 * 8 + 12 * 4) + padded(4000 * 12 * 4) +
                                            2 * padded(4000 * 768 * 2) + 4000 * (3 * 768 + 12) * 4 + MiB);
  CHECK(documents(DType::bf16, llama) == padded((128 + 1) * 4 * 8 + 128 * 4) + 32768 * 32 * 4 + 2 * 32768 * 1024 * 2 +
                                             Size{32768} * (6144 + 32 + 2 * 4096) * 4 + MiB);
  for (const DType dtype : {DType::f32, DType::f64}) CHECK(documents(dtype, gpt2) == bytes(dtype, gpt2));
  CHECK(documents(DType::bf16, gpt2, true) == 4 * 12 * 1000 * 4);  // own kernels: only delta
  CHECK(documents(DType::bf16, {4, 255, 12, 12, 64}) == 4 * 12 * 255 * 4);
  // cuDNN needs dq in f32 and delta for 1024 rows. Grouped heads add dk and dv of each query head in bf16.
  CHECK(bytes(DType::bf16, gpt2) == 4 * 12 * 1024 * (64 + 1) * 4 + MiB);
  CHECK(bytes(DType::bf16, llama) == Size{8} * 32 * 4096 * (2 * 128 + 1) * 4 + MiB);
  CHECK(bytes(DType::f32, gpt2) == 4 * 12 * 1000 * 4);
  // The backward for compute capability 9.0 needs dq in f32, delta, and an int for each 64 queries, which is less.
  const AttentionShape whole_blocks{4, 1024, 12, 12, 64};
  for (const auto may_run : {kernels::may_run_forward_on_hopper, kernels::may_run_backward_on_hopper}) {
    CHECK(may_run(DType::bf16, whole_blocks, false));
    CHECK(may_run(DType::f16, {1, 256, 1, 1, 64, 256}, false));
    CHECK_FALSE(may_run(DType::bf16, whole_blocks, true));
    CHECK_FALSE(may_run(DType::f32, whole_blocks, false));
    for (const AttentionShape& s : {AttentionShape{1, 384, 1, 1, 64}, {1, 256, 1, 1, 96}, {1, 512, 1, 1, 64, 511}}) {
      CHECK_FALSE(may_run(DType::bf16, s, false));
    }
  }
  // Heads of 128 channels: the backward only, whose blocks have 128 keys.
  CHECK(kernels::may_run_backward_on_hopper(DType::bf16, {1, 384, 1, 1, 128}, false));
  CHECK_FALSE(kernels::may_run_backward_on_hopper(DType::bf16, {1, 320, 1, 1, 128}, false));
  CHECK_FALSE(kernels::may_run_forward_on_hopper(DType::bf16, {1, 384, 1, 1, 128}, false));
  CHECK(kernels::hopper_workspace(whole_blocks).bytes == 4 * 12 * (1024 * (64 + 1) + 16) * 4);
  CHECK(kernels::hopper_workspace(llama).bytes == Size{8} * 32 * (4096 * (128 + 1) + 2 * 64) * 4);
  CHECK(bytes(DType::bf16, whole_blocks) == bytes(DType::bf16, gpt2));
  // Up to 16 million rows, beyond which the MiB of room is used up.
  const AttentionShape many{2048, 1024, 16, 16, 64};
  CHECK(bytes(DType::bf16, many) == kernels::hopper_workspace(many).bytes);
  // Many short sequences: a deterministic cuDNN takes some at a time, the other kernel all.
  const AttentionShape short_ones{2048, 256, 16, 16, 64};
  CHECK(bytes(DType::bf16, short_ones, true) == kernels::hopper_workspace(short_ones).bytes);
  // Deterministic mode adds the gradients of the scores in bf16: 24 MiB a sequence for gpt2, all sequences at once, and
  // 1 GiB a sequence for llama, one at a time.
  CHECK(kernels::cudnn_backward_sequences(gpt2, true) == 4);
  CHECK(kernels::cudnn_backward_sequences(llama, true) == 1);
  CHECK(bytes(DType::bf16, gpt2, true) == 4 * 12 * 1024 * ((64 + 1) * 4 + 1024 * 2) + MiB);
  CHECK(bytes(DType::bf16, llama, true) == Size{32} * 4096 * ((2 * 128 + 1) * 4 + 4096 * 2) + MiB);
}
