// The attention kernels for compute capability 9.0, compared with the CPU on the same inputs. Without such a device,
// the tests report why and check nothing.
#include "kernels/cuda/attention_hopper.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/attention_on_both.h"

using namespace lt;
using namespace lt::test::attention;
using test::attention_error;

namespace {

// The tolerance of lse is smaller than for other kernels on tensor cores, because these kernels add probabilities
// before they round them.
constexpr test::Tolerance kHopperTolerance{1e-2, 1e-5, 2e-2};

// For the kernels for compute capability 9.0. Backward: one block of keys; three, and three query heads a group; a
// window that hides nothing; single blocks in several rounds; pairs of blocks, on devices of 114 and of 132
// multiprocessors. Forward: fewer items than multiprocessors; one to four and sixteen query heads a group; several
// rounds of items, where blocks of threads share all pairs, and where each has one pair or two of its own.
constexpr AttentionShape kHopperShapes[] = {{1, 256, 1, 1, 64},    {2, 768, 3, 1, 64},  {3, 512, 4, 2, 64, 512},
                                            {16, 768, 20, 20, 64}, {31, 512, 9, 3, 64}, {21, 1024, 6, 2, 64},
                                            {2, 512, 8, 2, 64},    {1, 256, 16, 1, 64}, {34, 512, 12, 12, 64}};

// For the backward for heads of 128 channels: one block of keys; two and three, and several query heads a group; single
// blocks in several rounds; pairs of blocks, on devices of 114 and of 132 multiprocessors.
constexpr AttentionShape kWideShapes[] = {{1, 128, 1, 1, 128},  {2, 256, 4, 1, 128},  {1, 384, 2, 2, 128},
                                          {2, 1024, 4, 1, 128}, {25, 384, 4, 2, 128}, {25, 512, 4, 2, 128}};

// False, with a printed reason, if the device is of another compute capability.
bool has_hopper() {
  if (!test::has_gpu()) return false;
  const int capability = device::cuda::compute_capability(test::kGpu.index);
  if (capability != 90) lt_test::skip(fmt::format("cuda:0 has compute capability {}, not 9.0", capability / 10.0));
  return capability == 90;
}

// Compares out and lse with the CPU's, and returns CUDA's outputs.
Outputs compare_forward(const AttentionShape& s, DType dtype, const Inputs& in) {
  const Outputs expected = on_cpu(s, dtype, in);
  Outputs found = on_cuda(s, dtype, in, {.hopper = true});
  CHECK(attention_error(found.out, expected.out) <= kHopperTolerance.out);
  CHECK(attention_error(found.lse, expected.lse) <= kHopperTolerance.lse);
  return found;
}

}  // namespace

TEST_CASE("attention on CUDA: the kernels for compute capability 9.0 agree with the CPU's", "[cuda][hopper]") {
  if (!has_hopper()) return;
  for (const AttentionShape& s : kHopperShapes) {
    for (const DType dtype : {DType::bf16, DType::f16}) compare(s, dtype, kHopperTolerance, {.hopper = true});
  }
}

TEST_CASE("attention on CUDA: the backward for 128 channels on compute capability 9.0 agrees with the CPU's",
          "[cuda][hopper]") {
  if (!has_hopper()) return;
  for (const AttentionShape& s : kWideShapes) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      compare(s, dtype, kTensorCoreTolerance, {.hopper = true});
      const Inputs in(s, dtype);
      const Outputs once = on_cuda(s, dtype, in, {.hopper = true});
      for (int i = 0; i < 2; ++i) CHECK(once.same_bits(on_cuda(s, dtype, in, {.hopper = true})));
      // Deterministic calls on the automatic path take this kernel too.
      CHECK(once.same_bits(on_cuda(s, dtype, in, {AttentionPath::automatic, true})));
    }
  }
}

TEST_CASE("attention on CUDA: large scores on compute capability 9.0 agree with the CPU's", "[cuda][hopper]") {
  if (!has_hopper()) return;
  const AttentionShape s{24, 768, 8, 4, 64};  // 576 items, so a block of threads uses its stages of queries again
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const double scale : {1.0, 4.0, 64.0}) {  // scores up to about 900
      CAPTURE(dtype_name(dtype), scale);
      Inputs in(s, dtype);
      in.scale = scale;
      const Outputs once = compare_forward(s, dtype, in), again = on_cuda(s, dtype, in, {.hopper = true});
      CHECK(once.out.same_bits(again.out));
      CHECK(once.lse.same_bits(again.lse));
    }
  }
}

// Keys of a tile of 64 have the same score, 24 more than those of the tile after it. So each tile raises the
// references. Values shrink as weights grow, so all tiles have the same part in the outputs of the last one. This finds
// a wrong factor for earlier tiles; the test of large scores finds a missing raise, and factors of wrong rows.
TEST_CASE("attention on CUDA: tiles before a raised reference keep their part on compute capability 9.0",
          "[cuda][hopper]") {
  if (!has_hopper()) return;
  const AttentionShape s{1, 256, 1, 1, 64};
  Inputs in(s, DType::bf16);
  in.scale = 1;
  for (Size t = 0; t < s.T; ++t) {
    const double tile = static_cast<double>(t / 64);
    for (Size d = 0; d < s.D; ++d) {
      in.qkv.set(t * s.row() + d, d == 0 ? 1 : 0);
      in.qkv.set(t * s.row() + s.D + d, 24 * (3 - tile));
      in.qkv.set(t * s.row() + 2 * s.D + d, std::exp(24 * tile) * static_cast<double>(1 + (t + d) % 7));
    }
  }
  compare_forward(s, DType::bf16, in);
}

TEST_CASE("attention on CUDA: NaN in a key stays with the queries that see it on compute capability 9.0",
          "[cuda][hopper]") {
  if (!has_hopper()) return;
  const AttentionShape s{1, 256, 2, 1, 64};
  constexpr Size kBad = 100;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Inputs in(s, dtype);
    in.qkv.set(kBad * s.row() + s.H * s.D + 5, NAN);
    const Outputs found = on_cuda(s, dtype, in, {.hopper = true});
    Size wrong = 0;
    for (Size i = 0; i < found.out.count(); ++i) {
      const Size t = i / (s.H * s.D);
      if (std::isnan(found.out[i]) != (t >= kBad)) ++wrong;
    }
    for (Size i = 0; i < found.lse.count(); ++i) {
      if (std::isnan(found.lse[i]) != (i % s.T >= kBad)) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("attention on CUDA: the forward for compute capability 9.0 refuses what it cannot run", "[cuda][hopper]") {
  if (!has_hopper()) return;
  const AttentionShape s{1, 256, 1, 1, 64};
  test::DeviceArray qkv(test::Array(DType::bf16, s.T * s.row() + 1)), out(test::Array(DType::bf16, s.T * s.D)),
      lse(test::Array(DType::f32, s.T));
  kernels::AttentionForward call{DType::bf16, s, 0.125, out.data(), lse.data(), qkv.data()};
  REQUIRE(kernels::hopper::attention_forward(test::gpu_stream(), call));
  call.scale = -0.125;
  CHECK_FALSE(kernels::hopper::attention_forward(test::gpu_stream(), call));
  call.scale = 0.125, call.qkv = static_cast<const bf16*>(qkv.data()) + 1;
  CHECK_FALSE(kernels::hopper::attention_forward(test::gpu_stream(), call));
}

TEST_CASE("attention on CUDA: the kernels for compute capability 9.0 give the same bits again", "[cuda][hopper]") {
  if (!has_hopper()) return;
  for (const AttentionShape& s : kHopperShapes) {
    CAPTURE(s.B, s.T, s.H, s.G);
    const Inputs in(s, DType::bf16);
    const Outputs once = on_cuda(s, DType::bf16, in, {.hopper = true});
    for (int i = 0; i < 5; ++i) CHECK(once.same_bits(on_cuda(s, DType::bf16, in, {.hopper = true})));
    // The automatic path takes these kernels too, deterministic or not.
    for (const bool deterministic : {false, true}) {
      CHECK(once.same_bits(on_cuda(s, DType::bf16, in, {AttentionPath::automatic, deterministic})));
    }
  }
}
