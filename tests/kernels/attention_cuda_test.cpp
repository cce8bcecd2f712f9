// Attention on CUDA compared with the CPU on the same inputs: the library's kernels and cuDNN, forward and backward,
// over dtypes, lengths and head groups. Without a device, the tests report why and check nothing.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "kernels/attention_on_both.h"
#include "kernels/attention_options.h"
#include "kernels/cuda/attention_cudnn.h"
#include "libtrain/device/context.h"
#include "libtrain/error.h"

using namespace lt;
using namespace lt::test::attention;
using test::attention_error;
using test::gpu_stream;
using test::has_gpu;
using test::own_tolerance;

namespace {

constexpr AttentionShape kShapes[] = {{1, 1, 1, 1, 1},        {2, 5, 3, 3, 7},         {1, 64, 2, 2, 32},
                                      {2, 65, 4, 2, 16},      {1, 130, 6, 2, 40},      {1, 200, 2, 1, 64},
                                      {1, 97, 2, 2, 128},     {3, 63, 4, 1, 2},        {1, 70, 2, 1, 129},
                                      {2, 33, 2, 2, 256},     {1, 70, 2, 1, 16, 1},    {2, 130, 4, 2, 16, 5},
                                      {1, 200, 2, 1, 40, 64}, {1, 300, 2, 2, 16, 100}, {1, 200, 2, 1, 130, 129}};
constexpr AttentionShape kCudnnShapes[] = {{2, 64, 2, 2, 64},      {2, 65, 4, 2, 16},        {1, 130, 6, 2, 40},
                                           {1, 200, 2, 1, 64},     {3, 97, 4, 4, 128},       {2, 257, 8, 2, 128},
                                           {5, 128, 3, 3, 8},      {2, 257, 8, 2, 128, 100}, {1, 200, 2, 1, 64, 1},
                                           {1, 300, 4, 4, 64, 64}, {1, 300, 4, 4, 64, 300}};

// Documents have one token, end at and beside the edges of tiles, are longer than tiles, or are the whole sequence.
const std::vector<Size> kLengths[] = {{1}, {5, 1, 30}, {64, 1, 63}, {150, 7}, {1000}};

// False, with a printed reason, without a device or if cuDNN refuses a plain shape.
bool has_cudnn() {
  if (!has_gpu()) return false;
  static const bool takes =
      kernels::cudnn::backward_workspace(gpu_stream(), DType::bf16, kCudnnShapes[0], 1, false) >= 0;
  if (!takes) lt_test::skip(fmt::format("cuDNN refuses bf16 with heads of {} channels", kCudnnShapes[0].D));
  return takes;
}

}  // namespace

TEST_CASE("attention on CUDA: own kernels agree with the CPU's", "[cuda]") {
  if (!has_gpu()) return;
  const Settings settings{AttentionPath::own};
  for (const AttentionShape& s : kShapes) {
    for (const DType dtype : test::kFloats) compare(s, dtype, own_tolerance(dtype), settings);
  }
}

TEST_CASE("attention on CUDA: own kernels agree with the CPU's inside documents", "[cuda]") {
  if (!has_gpu()) return;
  const Settings settings{AttentionPath::own};
  for (const AttentionShape& s : kShapes) {
    for (const std::vector<Size>& lengths : kLengths) {
      CAPTURE(lengths);
      for (const DType dtype : test::kFloats) {
        compare(s, dtype, Inputs(s, dtype, lengths), own_tolerance(dtype), settings);
      }
    }
  }
}

TEST_CASE("attention on CUDA: own kernels give the same bits again", "[cuda]") {
  if (!has_gpu()) return;
  const Settings settings{AttentionPath::own};
  const AttentionShape s{2, 150, 6, 2, 48};
  for (const DType dtype : test::kFloats) {
    CAPTURE(dtype_name(dtype));
    const Inputs in(s, dtype);
    CHECK(on_cuda(s, dtype, in, settings).same_bits(on_cuda(s, dtype, in, settings)));
  }
}

TEST_CASE("attention on CUDA: cuDNN agrees with the CPU's kernels", "[cuda][cudnn]") {
  if (!has_cudnn()) return;
  for (const bool deterministic : {false, true}) {
    CAPTURE(deterministic);
    const Settings settings{AttentionPath::cudnn, deterministic};
    for (const AttentionShape& s : kCudnnShapes) {
      for (const DType dtype : {DType::bf16, DType::f16}) compare(s, dtype, kTensorCoreTolerance, settings);
    }
  }
}

// Long documents run on cuDNN and short ones on the own kernels: of one kind alone, side by side, and at the edges
// between both; a row of one document; rows that hold as many long documents as fit.
TEST_CASE("attention on CUDA: cuDNN agrees with the CPU's kernels inside documents", "[cuda][cudnn]") {
  if (!has_cudnn()) return;
  const std::vector<Size> documents[] = {{256}, {255}, {40, 1}, {300, 1, 5}, {257, 256, 20, 400}, {100, 700}, {5000}};
  for (const AttentionShape& s : {AttentionShape{2, 600, 4, 2, 64},
                                  {1, 1024, 8, 8, 128},
                                  {3, 515, 6, 2, 32},
                                  {2, 300, 2, 2, 16},
                                  {2, 1100, 4, 1, 64, 100},
                                  {1, 2048, 4, 4, 128, 700}}) {
    for (const std::vector<Size>& lengths : documents) {
      CAPTURE(lengths);
      for (const DType dtype : {DType::bf16, DType::f16}) {
        compare(s, dtype, Inputs(s, dtype, lengths), kTensorCoreTolerance, {AttentionPath::cudnn});
      }
    }
  }
}

TEST_CASE("attention on CUDA: with documents a deterministic backward runs on the own kernels", "[cuda][cudnn]") {
  if (!has_cudnn()) return;
  const AttentionShape s{2, 600, 4, 2, 64};
  const Inputs in(s, DType::bf16, {300, 1, 5});
  compare(s, DType::bf16, in, kTensorCoreTolerance, {AttentionPath::automatic, true});
  CHECK(on_cuda(s, DType::bf16, in, {AttentionPath::automatic, true})
            .same_bits(on_cuda(s, DType::bf16, in, {AttentionPath::automatic, true})));
  CHECK_THROWS_AS(on_cuda(s, DType::bf16, in, {AttentionPath::cudnn, true}), InternalError);
}

TEST_CASE("attention on CUDA: cuDNN in deterministic mode gives the same bits again", "[cuda][cudnn]") {
  if (!has_cudnn()) return;
  const Settings settings{AttentionPath::cudnn, true};
  // The second shape is done in two pieces: 16 heads of 2048^2 gradients of scores are 128 MiB.
  for (const AttentionShape& s : {AttentionShape{2, 384, 8, 2, 64}, {3, 2048, 16, 16, 64}}) {
    const Inputs in(s, DType::bf16);
    const Outputs once = on_cuda(s, DType::bf16, in, settings);
    CHECK(once.same_bits(on_cuda(s, DType::bf16, in, settings)));
    const Outputs fast = on_cuda(s, DType::bf16, in, {AttentionPath::cudnn});
    CHECK(attention_error(once.dqkv, fast.dqkv) <= kTensorCoreTolerance.gradient);
  }
}

TEST_CASE("attention on CUDA: the planned workspace is enough for cuDNN", "[cuda][cudnn]") {
  if (!has_cudnn()) return;
  for (const AttentionShape& s : {AttentionShape{64, 1024, 12, 12, 64},
                                  {16, 1024, 25, 25, 64},
                                  {2, 4096, 32, 8, 128},
                                  {1, 1000, 12, 12, 64},
                                  {3, 77, 6, 2, 40},
                                  {1, 512, 4, 4, 256},
                                  {2, 4096, 32, 8, 128, 1024}}) {
    for (const bool deterministic : {false, true}) {
      const Size asked =
          std::max(kernels::cudnn::backward_workspace(gpu_stream(), DType::bf16, s, 0.125, deterministic),
                   kernels::cudnn::backward_workspace(gpu_stream(), DType::f16, s, 0.125, deterministic));
      const Size planned = kernels::attention_backward_workspace(DeviceType::cuda, DType::bf16, s, deterministic);
      WARN("B=" << s.B << " T=" << s.T << " H=" << s.H << " G=" << s.G << " D=" << s.D
                << (deterministic ? " deterministic" : "") << ": cuDNN asks " << asked << " bytes, planned "
                << planned);
      CHECK(asked <= planned);
    }
  }
}

TEST_CASE("attention on CUDA: the planned workspace is enough for documents on cuDNN", "[cuda][cudnn]") {
  if (!has_cudnn()) return;
  for (const AttentionShape& s : {AttentionShape{64, 1024, 12, 12, 64},
                                  {2, 4096, 32, 8, 128},
                                  {1, 1000, 12, 12, 64},
                                  {3, 300, 6, 2, 48},
                                  {2, 4096, 32, 8, 128, 1024},
                                  {1, 8192, 16, 16, 128}}) {
    const Size asked = std::max(kernels::cudnn::backward_workspace(gpu_stream(), DType::bf16, s, 0.125, false, true),
                                kernels::cudnn::backward_workspace(gpu_stream(), DType::f16, s, 0.125, false, true));
    const Size planned = kernels::attention_backward_workspace(DeviceType::cuda, DType::bf16, s, false, true);
    WARN("B=" << s.B << " T=" << s.T << " H=" << s.H << " G=" << s.G << " D=" << s.D << ": documents need " << asked
              << " bytes, planned " << planned);
    CHECK(asked > 0);
    CHECK(asked <= planned);
  }
}

TEST_CASE("attention on CUDA: what cuDNN does not take runs on the own kernels", "[cuda]") {
  if (!has_gpu()) return;
  const AttentionShape odd{1, 20, 2, 2, 7};
  compare(odd, DType::bf16, own_tolerance(DType::bf16));
  compare({2, 1, 2, 2, 64}, DType::bf16, kTensorCoreTolerance);  // one token: cuDNN has no backward
  compare({1, 20, 2, 2, 64}, DType::f32, own_tolerance(DType::f32));
  CHECK_THROWS_AS(on_cuda(odd, DType::bf16, Inputs(odd, DType::bf16), {AttentionPath::cudnn}), InternalError);
  // Reported once, with the reason; f32 has no alternative.
  std::vector<std::string> notices;
  const ContextMemberScope<&Context::notices> scope(&notices);
  on_cuda({1, 20, 2, 2, 9}, DType::bf16, Inputs({1, 20, 2, 2, 9}, DType::bf16), {});
  on_cuda({1, 20, 2, 2, 9}, DType::f32, Inputs({1, 20, 2, 2, 9}, DType::f32), {});
  on_cuda({1, 20, 2, 2, 9}, DType::bf16, Inputs({1, 20, 2, 2, 9}, DType::bf16), {});
  CHECK(notices == std::vector<std::string>{
                       "attention in bf16 with heads of 9 channels runs on libtrain's kernels, which are slower, "
                       "since cuDNN: expected bf16 or f16 and a head size that is a multiple of 8 up to 256"});
}

TEST_CASE("attention on CUDA: heads of more than 256 channels are refused", "[cuda]") {
  if (!has_gpu()) return;
  const AttentionShape s{1, 2, 1, 1, 257};
  CHECK_THROWS_AS(on_cuda(s, DType::f32, Inputs(s, DType::f32), {}), UsageError);
}
