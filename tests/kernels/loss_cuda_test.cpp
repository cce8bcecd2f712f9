// Softmax and cross-entropy on CUDA compared with the CPU, also for the vocabularies of GPT-2 and Llama 3 and for
// arrays of more than 2^31 elements. Errors are relative to the scale of the element's row, because one probability
// among many is small.
#include <fmt/format.h>

#include <limits>
#include <utility>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/loss.h"
#include "kernels/on_both.h"
#include "libtrain/error.h"

using namespace lt;
using namespace lt::kernels;
using namespace lt::test;

namespace {

struct LossRows {
  Size R, C;
};
constexpr double kScale = 1000;  // keeps gradients of many classes out of f16's subnormal numbers
constexpr LossRows kLossRows[] = {{1, 1},      {3, 33},    {200, 100},  {1030, 67},  {2049, 768},
                                  {301, 1600}, {67, 4096}, {5, 50'257}, {5, 128'256}};

const std::int32_t* targets_at(const void* p) { return static_cast<const std::int32_t*>(p); }

}  // namespace

TEST_CASE("cuda: softmax and cross-entropy, by the scale of each row", "[cuda]") {
  for_floats([](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const auto [R, C] : kLossRows) {
      CAPTURE(R, C);
      for (const bool add : {false, true}) {
        const LossTerms terms = add ? LossTerms{0.01, 0.25} : LossTerms{};
        OnBoth both;
        const int x = both.array(dtype, R * C, 5), dy = both.array(dtype, R * C), y = both.array(dtype, R * C),
                  dx = both.array(dtype, R * C), losses = both.array(sums, R), lse = both.array(sums, R),
                  dl = both.array(dtype, R * C), d_loss = both.constant(sums, 1, 0.5), targets = both.ids(R, C),
                  count = both.words(0.0f), weight = both.words(0.0f);
        both.ignore(targets, R / 2);
        both.by_element(y, C);
        if (!add) both.by_row(dx, C), both.by_element(dl, C);
        both.run(
            [&, R = R, C = C](auto s, auto at) {
              softmax_forward(s, dtype, at(y), at(x), R, C);
              softmax_backward(s, dtype, at(dx), at(dy), at(y), R, C, add);
              auto *const counted = static_cast<float*>(at(count)), *const factor = static_cast<float*>(at(weight));
              count_targets(s, counted, 1, targets_at(at(targets)), R);
              target_weight(s, factor, counted, 1, static_cast<double>(R));
              cross_entropy_forward(s, {dtype, R, C, at(losses), at(lse), at(x), targets_at(at(targets)), terms});
              cross_entropy_backward(s, {.dtype = dtype,
                                         .M = R,
                                         .V = C,
                                         .dlogits_MV = at(dl),
                                         .logits_MV = at(x),
                                         .lse_M = at(lse),
                                         .targets_M = targets_at(at(targets)),
                                         .d_loss = at(d_loss),
                                         .weight = factor,
                                         .scale = kScale,
                                         .accumulate = add,
                                         .terms = terms});
            },
            4);
      }
    }
  });
}

TEST_CASE("cuda: a class of -infinity has no gradient, also with a z-loss", "[cuda]") {
  constexpr Size R = 5, C = 300, kMasked = 7;
  for_floats([&](DType dtype) {
    const LossTerms terms{.z_loss = 0.01};
    Array logits = random_array(dtype, R * C, 1, 5);
    for (Size r = 0; r < R; ++r) logits.set(r * C + kMasked, -std::numeric_limits<double>::infinity());
    OnBoth both;
    const int x = both.exact(both.add(std::move(logits))), losses = both.array(kernels::gradient_dtype(dtype), R),
              lse = both.array(kernels::gradient_dtype(dtype), R), dl = both.array(dtype, R * C),
              targets = both.ids(R, kMasked);
    both.by_element(dl, C);
    both.run(
        [&](auto s, auto at) {
          cross_entropy_forward(s, {dtype, R, C, at(losses), at(lse), at(x), targets_at(at(targets)), terms});
          cross_entropy_backward(s, {.dtype = dtype,
                                     .M = R,
                                     .V = C,
                                     .dlogits_MV = at(dl),
                                     .logits_MV = at(x),
                                     .lse_M = at(lse),
                                     .targets_M = targets_at(at(targets)),
                                     .d_loss = nullptr,
                                     .scale = kScale,
                                     .terms = terms});
        },
        4);
  });
}

TEST_CASE("cuda: both passes of the cross-entropy in place have the bits of one after the other", "[cuda]") {
  if (!has_gpu()) return;
  const CudaStream stream = gpu_stream();
  for_floats([&](DType dtype) {
    const DType sums = kernels::gradient_dtype(dtype);
    for (const auto [R, C] : {LossRows{33, 64}, {257, 1000}, {300, 4096}, {67, 50'304}, {5, 50'257}, {5, 128'256}}) {
      for (const LossTerms terms : {LossTerms{}, LossTerms{0.01, 0.25}}) {
        CAPTURE(R, C, dtype_name(dtype), terms.z_loss);
        const Array logits = random_array(dtype, R * C, 1, 5);
        std::vector<std::int32_t> ids = random_ids(R, C, 2);
        ids[static_cast<std::size_t>(R / 2)] = kIgnoredTarget;
        DeviceArray targets(as_array(ids));
        const auto results = [&](bool in_place) {
          DeviceArray x(logits), losses(R * dtype_bytes(sums)), lse(R * dtype_bytes(sums));
          const CrossEntropyForward loss{dtype, R, C, losses.data(), lse.data(), x.data(), targets_at(targets.data()),
                                         terms};
          const CrossEntropyBackward gradient{.dtype = dtype,
                                              .M = R,
                                              .V = C,
                                              .dlogits_MV = x.data(),
                                              .logits_MV = x.data(),
                                              .lse_M = lse.data(),
                                              .targets_M = targets_at(targets.data()),
                                              .d_loss = nullptr,
                                              .scale = kScale,
                                              .terms = terms};
          if (in_place) {
            cross_entropy_in_place(stream, loss, gradient);
          } else {
            cross_entropy_forward(stream, loss);
            cross_entropy_backward(stream, gradient);
          }
          std::vector<Array> read;
          read.emplace_back(dtype, R * C), read.emplace_back(sums, R), read.emplace_back(sums, R);
          x.read(read[0]), losses.read(read[1]), lse.read(read[2]);
          return read;
        };
        const std::vector<Array> found = results(true), expected = results(false);
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i].same_bits(expected[i]));
      }
    }
  });
}

TEST_CASE("cuda: softmax_forward and scale reach rows beyond 2^31 elements", "[cuda]") {
  if (!has_gpu()) return;
  constexpr Size C = 128'256, R = (Size{1} << 31) / C + 2, N = R * C;
  if (device::cuda::memory(kGpu.index).total < 4 * N * 2) {
    return lt_test::skip(fmt::format("a device of {} bytes", device::cuda::memory(kGpu.index).total));
  }
  const CudaStream stream = gpu_stream();
  DeviceArray x(2 * N), y(2 * N);
  const auto row_at = [&](DeviceArray& array, Size r) { return static_cast<std::byte*>(array.data()) + 2 * r * C; };
  fill(stream, DType::bf16, x.data(), 0.25, N);
  Array last = random_array(DType::bf16, C, 1, 5), found(DType::bf16, C), expected(DType::bf16, C);
  device::cuda::copy(row_at(x, R - 1), last.data(), 2 * C, stream);
  const auto read = [&](DeviceArray& array, Size r) {
    device::cuda::copy(found.data(), row_at(array, r), 2 * C, stream);
    device::cuda::synchronize_stream(stream);
  };
  softmax_forward(stream, DType::bf16, y.data(), x.data(), R, C);
  softmax_forward(CpuStream{}, DType::bf16, expected.data(), last.data(), 1, C);
  read(y, R - 1);
  CHECK(error_by_element(found, expected.values(), C) <= 4 * tolerance(DType::bf16));
  read(y, 0);
  CHECK(error_by_element(found, std::vector<double>(static_cast<std::size_t>(C), 1.0 / C), C) <=
        4 * tolerance(DType::bf16));
  scale(stream, DType::bf16, y.data(), x.data(), 2, N, false);
  scale(CpuStream{}, DType::bf16, expected.data(), last.data(), 2, C, false);
  read(y, R - 1);
  CHECK(found.same_bits(expected));
}
