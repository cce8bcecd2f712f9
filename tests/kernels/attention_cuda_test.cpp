// Attention on CUDA against the CPU's on the same inputs: own kernels and cuDNN, forward and backward, over
// dtypes, lengths and head groups. Without a device, the tests report why and check nothing.
#include <optional>

#include "kernels/attention_options.h"
#include "kernels/attention_tolerance.h"
#include "kernels/cuda/attention_cudnn.h"
#include "kernels/cuda/attention_hopper.h"
#include "kernels/device_array.h"
#include "kernels/documents.h"
#include "libtrain/device/context.h"
#include "libtrain/error.h"

using namespace lt;
using kernels::AttentionPath;
using kernels::AttentionShape;
using test::Array;
using test::attention_error;
using test::DeviceArray;
using test::gpu_stream;
using test::has_gpu;
using test::own_tolerance;
using test::Tolerance;

namespace {

// Kernels on tensor cores also round probabilities and the gradients of scores, and their exponential and logarithm are
// approximate.
constexpr Tolerance kTensorCoreTolerance{1e-2, 1e-3, 2e-2};

// Settings of a call on CUDA. With `hopper` the backward must run on the kernel for compute capability 9.0.
struct Settings {
  AttentionPath path = AttentionPath::automatic;
  bool deterministic = false;
  bool hopper = false;
};

struct Inputs {
  Array qkv, dout;
  double scale;
  std::vector<std::int32_t> starts;  // empty: sequences are single documents

  // Documents have the given `lengths`, in turn.
  Inputs(const AttentionShape& s, DType dtype, const std::vector<Size>& lengths) : Inputs(s, dtype) {
    starts = test::document_starts(s.B, s.T, lengths);
  }
  Inputs(const AttentionShape& s, DType dtype)
      : qkv(Array::random(dtype, s.B * s.T * s.row(), 1)),
        dout(Array::random(dtype, s.B * s.T * s.H * s.D, 2)),
        scale(1 / std::sqrt(static_cast<double>(s.D))) {}
};

struct Outputs {
  Array out, lse, dqkv;

  Outputs(const AttentionShape& s, DType dtype)
      : out(dtype, s.B * s.T * s.H * s.D, 99),
        lse(gradient_dtype(dtype), s.B * s.H * s.T, 99),
        dqkv(dtype, s.B * s.T * s.row(), 99) {}
  bool same_bits(const Outputs& o) const {
    return out.same_bits(o.out) && lse.same_bits(o.lse) && dqkv.same_bits(o.dqkv);
  }
};

Outputs on_cpu(const AttentionShape& s, DType dtype, const Inputs& in) {
  Outputs r(s, dtype);
  const std::int32_t* const starts = in.starts.empty() ? nullptr : in.starts.data();
  kernels::attention_forward(CpuStream{}, {.dtype = dtype,
                                           .shape = s,
                                           .scale = in.scale,
                                           .out_BTHD = r.out.data(),
                                           .lse_BHT = r.lse.data(),
                                           .qkv = in.qkv.data(),
                                           .starts_BT = starts});
  kernels::attention_backward(CpuStream{}, {.dtype = dtype,
                                            .shape = s,
                                            .scale = in.scale,
                                            .dqkv = r.dqkv.data(),
                                            .dout_BTHD = in.dout.data(),
                                            .qkv = in.qkv.data(),
                                            .out_BTHD = r.out.data(),
                                            .lse_BHT = r.lse.data(),
                                            .workspace = nullptr,
                                            .starts_BT = starts});
  return r;
}

Outputs on_cuda(const AttentionShape& s, DType dtype, const Inputs& in, const Settings& settings) {
  Outputs r(s, dtype);
  DeviceArray qkv(in.qkv), dout(in.dout), out(r.out), lse(r.lse), dqkv(r.dqkv);
  const Size workspace_bytes =
      kernels::attention_backward_workspace(DeviceType::cuda, dtype, s, settings.deterministic, !in.starts.empty());
  DeviceArray workspace(Array(DType::f32, workspace_bytes / 4, NAN));  // so that reading what was not written shows
  std::optional<DeviceArray> starts;
  if (!in.starts.empty()) starts.emplace(test::as_array(in.starts));
  const auto* const starts_BT = starts ? static_cast<const std::int32_t*>(starts->data()) : nullptr;
  kernels::attention_forward(gpu_stream(),
                             {dtype, s, in.scale, out.data(), lse.data(), qkv.data(), settings.path, starts_BT});
  const kernels::AttentionBackward backward{.dtype = dtype,
                                            .shape = s,
                                            .scale = in.scale,
                                            .dqkv = dqkv.data(),
                                            .dout_BTHD = dout.data(),
                                            .qkv = qkv.data(),
                                            .out_BTHD = out.data(),
                                            .lse_BHT = lse.data(),
                                            .workspace = workspace.data(),
                                            .deterministic = settings.deterministic,
                                            .path = settings.path,
                                            .starts_BT = starts_BT};
  if (settings.hopper) {
    REQUIRE(kernels::hopper::attention_backward(gpu_stream(), backward));
  } else {
    kernels::attention_backward(gpu_stream(), backward);
  }
  out.read(r.out), lse.read(r.lse), dqkv.read(r.dqkv);
  if (!in.starts.empty()) {  // [B, T, H]
    Array ordered(r.lse.dtype(), r.lse.count());
    for (Size i = 0; i < ordered.count(); ++i) {
      const Size t = i % s.T, h = i / s.T % s.H, b = i / s.T / s.H;
      ordered.set(i, r.lse[(b * s.T + t) * s.H + h]);
    }
    r.lse = std::move(ordered);
  }
  return r;
}

void compare(const AttentionShape& s, DType dtype, const Inputs& in, const Tolerance& tolerance,
             const Settings& settings) {
  CAPTURE(s.B, s.T, s.H, s.G, s.D, s.window, dtype_name(dtype));
  const Outputs expected = on_cpu(s, dtype, in), found = on_cuda(s, dtype, in, settings);
  CHECK(attention_error(found.out, expected.out) <= tolerance.out);
  CHECK(attention_error(found.lse, expected.lse) <= tolerance.lse);
  CHECK(attention_error(found.dqkv, expected.dqkv) <= tolerance.gradient);
}

void compare(const AttentionShape& s, DType dtype, const Tolerance& tolerance, const Settings& settings = {}) {
  compare(s, dtype, Inputs(s, dtype), tolerance, settings);
}

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
  if (!takes) WARN("skipped: cuDNN refuses bf16 with heads of " << kCudnnShapes[0].D << " channels");
  return takes;
}

// For the kernel for compute capability 9.0: one block of keys; three, and three query heads a group; a window that
// hides nothing; single blocks in several rounds; pairs of blocks, on devices of 114 and of 132 multiprocessors.
constexpr AttentionShape kHopperShapes[] = {{1, 256, 1, 1, 64},    {2, 768, 3, 1, 64},  {3, 512, 4, 2, 64, 512},
                                            {16, 768, 20, 20, 64}, {31, 512, 9, 3, 64}, {21, 1024, 6, 2, 64}};

// False, with a printed reason, if the device is of another compute capability.
bool has_hopper() {
  if (!has_gpu()) return false;
  const int capability = cuda::compute_capability(test::kGpu.index);
  if (capability != 90) WARN("skipped: cuda:0 has compute capability " << capability / 10.0 << ", not 9.0");
  return capability == 90;
}

}  // namespace

TEST_CASE("attention on CUDA: the backward for compute capability 9.0 agrees with the CPU's", "[cuda]") {
  if (!has_hopper()) return;
  for (const AttentionShape& s : kHopperShapes) {
    for (const DType dtype : {DType::bf16, DType::f16}) compare(s, dtype, kTensorCoreTolerance, {.hopper = true});
  }
}

TEST_CASE("attention on CUDA: the backward for compute capability 9.0 gives the same bits again", "[cuda]") {
  if (!has_hopper()) return;
  for (const AttentionShape& s : kHopperShapes) {
    CAPTURE(s.B, s.T, s.H, s.G);
    const Inputs in(s, DType::bf16);
    const Outputs once = on_cuda(s, DType::bf16, in, {.hopper = true});
    for (int i = 0; i < 5; ++i) CHECK(once.same_bits(on_cuda(s, DType::bf16, in, {.hopper = true})));
    // The automatic path takes this kernel too, deterministic or not.
    for (const bool deterministic : {false, true}) {
      CHECK(once.same_bits(on_cuda(s, DType::bf16, in, {AttentionPath::automatic, deterministic})));
    }
  }
}

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
