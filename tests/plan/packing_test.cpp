// The packer on real steps: every preset under every strategy and recomputation, compared with the bytes that are live
// at the same time.
#include <chrono>

#include "libtrain/nn/models.h"
#include "libtrain/parallel/engine.h"
#include "test_main/catch.h"

using namespace lt;

TEST_CASE("packer: at most 3 % above what lives at one time, on every preset but one", "[train]") {
  int packed = 0;
  for (const nn::Preset& preset : nn::presets()) {
    const auto model = nn::make_transformer(preset.spec);
    for (const Strategy& strategy : kStrategies) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        Engine engine(*model, Group::meta(0, 8), {.strategy = strategy, .recompute = recompute}, AdamW{},
                      {.micro_batch = 1, .seq = preset.spec.max_seq, .dtype = DType::bf16, .device = kMeta});
        const Tensor tokens = Tensor::empty({1, preset.spec.max_seq}, DType::i32, kMeta);
        engine.rehearse({tokens, tokens});
        const MemoryPlan& step = *engine.memory_plans().at(0);
        const auto start = std::chrono::steady_clock::now();
        const Packing packing = pack(step.lifetimes);
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        const double ratio = static_cast<double>(packing.bytes) / static_cast<double>(most_live_bytes(step.lifetimes));
        INFO(preset.name << " " << strategy.name << " recompute " << static_cast<int>(recompute) << ": "
                         << step.lifetimes.size() << " blocks, " << seconds << " s, ratio " << ratio);
        // The gathered blocks of llama-70b are larger than everything that lives between two of them under full
        // recomputation, so what one leaves free serves nobody: 1.104.
        const bool is_coarse =
            preset.name == "llama-70b" && strategy == Strategy::zero3 && recompute == Recompute::full;
        CHECK(ratio <= (is_coarse ? 1.11 : 1.03));
        CHECK(seconds < 2);
        ++packed;
      }
    }
  }
  CHECK(packed == 180);  // as docs/explanation/memory.md says
}
