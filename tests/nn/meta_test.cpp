// A model of 8 billion parameters on the meta device: shapes and bytes, no data.
#include "libtrain/memory/memory.h"
#include "nn/passes.h"
#include "ops/loss_pass.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

TEST_CASE("llama-8b runs on meta, forward and backward, with a sequence of 4096", "[nn]") {
  const MemoryUse meta = memory_live(kMeta), cpu = memory_live(kCpu);
  reset_memory_peak(kCpu), reset_memory_peak(kMeta);
  const auto model = nn::make_transformer(nn::preset("llama-8b"));
  model->materialize(kMeta, DType::bf16, kSeed);
  const Size parameters = 2 * Size{8030261248};  // all are whole blocks of memory
  CHECK(memory_live(kMeta).of(MemoryOwner::parameters) - meta.of(MemoryOwner::parameters) == parameters);

  const Batch batch{Tensor::empty({1, 4096}, DType::i32, kMeta), Tensor::empty({1, 4096}, DType::i32, kMeta)};
  Tape tape;
  {
    ops::LossPass pass{.gradient = 1.0};
    const nn::ForwardScope context({true, 1, 0, {.pass = &pass}});
    const TapeScope recording(&tape);
    const Tensor loss = model->loss(batch);
    CHECK(loss.shape() == Shape{});
    CHECK(loss.dtype() == DType::f32);
    CHECK(loss.device() == kMeta);
    // At least qkv (6144), attention (4096), gate_up (28672), swiglu (14336), two sums and two norms of each block.
    const Size activations = memory_live(kMeta).of(MemoryOwner::activations) - meta.of(MemoryOwner::activations);
    CHECK(activations >= Size{2} * 32 * 4096 * (6144 + 4096 + 28672 + 14336 + 4 * 4096));
    backward(tape, loss, 1.0);
  }
  for (const nn::NamedParameter& entry : model->all_parameters()) {
    const Tensor gradient = entry.parameter->tensor().gradient();
    INFO(entry.name);
    REQUIRE(gradient.defined());
    CHECK(gradient.shape() == entry.parameter->shape());
    CHECK(gradient.dtype() == DType::f32);
  }
  CHECK(memory_peak(kMeta).total - meta.total > 3 * parameters);  // with gradients of twice the bytes
  CHECK(memory_peak(kCpu).total == cpu.total);
}

TEST_CASE("meta and the CPU hold the same bytes after each pass, forward and backward, at the same peaks", "[nn]") {
  for (const std::string& family : family_names()) {
    const nn::TransformerSpec spec = two_blocks(family);
    std::vector<std::vector<Size>> held;  // per device
    for (const Device device : {kCpu, kMeta}) {
      const auto model = nn::make_transformer(spec);
      model->materialize(device, DType::f32, kSeed);
      Batch batch = tokens_of(0, 2, 12, spec.vocab);
      if (device.is_meta())
        batch = {Tensor::empty({2, 12}, DType::i32, kMeta), Tensor::empty({2, 12}, DType::i32, kMeta)};
      const MemoryUse before = memory_live(device);
      reset_memory_peak(device);
      std::vector<Size>& bytes = held.emplace_back();
      const auto note = [&] {  // after a pass, with its peak
        bytes.push_back(memory_live(device).total - before.total);
        bytes.push_back(memory_peak(device).total - before.total);
        reset_memory_peak(device);
      };
      Tape tape;
      {
        ops::LossPass pass{.gradient = 1.0};
        const nn::ForwardScope context({true, 1, 0, {.pass = &pass}});
        const TapeScope recording(&tape);
        const Tensor loss = model->loss(batch);
        note();
        backward(tape, loss, 1.0);
      }
      note();
      Size gradients = 0;
      for (const nn::NamedParameter& entry : model->all_parameters()) {
        const Size in_f32 = 4 * entry.parameter->shape().elements();
        gradients += (in_f32 + kAllocationAlignment - 1) / kAllocationAlignment * kAllocationAlignment;
      }
      CHECK(bytes[2] == gradients);  // without activations
    }
    INFO(family);
    CHECK(held[0] == held[1]);
  }
}
