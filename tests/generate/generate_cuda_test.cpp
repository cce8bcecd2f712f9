// Generation on a GPU, as eager steps and as a graph, compared with the CPU. Without a device, the tests report why and
// check nothing.
#include "device/cuda.h"
#include "generate/generated.h"
#include "libtrain/config/resolved.h"
#include "libtrain/memory/memory.h"
#include "libtrain/plan/plan_sample.h"
#include "memory/workspace.h"
#include "test_main/catch.h"
#include "test_main/world.h"

using namespace lt;
using namespace lt_test;
using Tokens = Generator::Tokens;

namespace {

constexpr Device kGpu{DeviceType::cuda, 0};
const std::vector<Tokens> kPrompts{{1, 2, 3}, {7}, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11, 12, 13}};

bool has_gpu() {
  static const std::string reason = device::cuda::why_not(kGpu.index);
  if (!reason.empty()) skip("cuda:0 " + reason);
  return reason.empty();
}

// The model with its weights on the GPU.
std::unique_ptr<nn::Transformer> on_gpu(const nn::Transformer& here) {
  auto there = model_of(here.spec(), DType::f32, kGpu);
  const auto from = here.all_parameters(), to = there->all_parameters();
  for (std::size_t i = 0; i < to.size(); ++i) {
    copy(to[i].parameter->tensor().detach(), from[i].parameter->tensor().detach());
  }
  return there;
}

nn::TransformerSpec wide(const std::string& family) {  // heads of 64 channels: keys are split
  nn::TransformerSpec spec = tiny(family, 400);
  spec.width = 256;
  return spec;
}

}  // namespace

TEST_CASE("cuda: greedy tokens are those of the CPU, beyond the window too", "[cuda]") {
  if (!has_gpu()) return;
  for (const char* const family : {"gpt2", "llama", "qwen3"}) {
    CAPTURE(family);
    const SamplingOptions greedy{.tokens = 60, .temperature = 0};
    for (const nn::TransformerSpec& spec : {tiny(family), wide(family)}) {
      const auto here = model_of(spec), there = on_gpu(*here);
      CHECK(generated(*there, kPrompts, greedy) == generated(*here, kPrompts, greedy));
    }
  }
}

TEST_CASE("cuda: in bf16 each of several texts is what it is alone", "[cuda]") {
  if (!has_gpu()) return;
  for (const char* const family : {"gpt2", "llama", "qwen3"}) {
    CAPTURE(family);
    const auto model = model_of(wide(family), DType::bf16, kGpu);
    for (const double temperature : {0.0, 1.2}) {
      const SamplingOptions options{.tokens = 300, .temperature = temperature, .top_k = 30, .repetition_penalty = 1.1};
      const std::vector<Tokens> rows = generated(*model, kPrompts, options);
      CHECK(rows[0] == generated(*model, {kPrompts[0]}, options)[0]);
      if (temperature > 0) continue;  // the random numbers of another prompt
      CHECK(rows[2] == generated(*model, {kPrompts[2]}, options)[0]);
    }
  }
}

TEST_CASE("cuda: texts that grow between steps take back the step that the device is ahead", "[cuda]") {
  if (!has_gpu()) return;
  const nn::TransformerSpec spec = wide("llama");
  const auto here = model_of(spec), there = on_gpu(*here);
  for (const double temperature : {0.0, 0.9}) {
    const SamplingOptions options{.temperature = temperature, .repetition_penalty = 1.3};
    const auto turns = [&](nn::Transformer& model) {
      Generator generator(model, 2, options);
      std::vector<Tokens> all;
      const auto steps = [&](int count) {
        for (int i = 0; i < count; ++i) all.push_back(generator.step());
      };
      generator.append(0, {1, 2, 3}), generator.append(1, {4});
      steps(12), generator.append(1, {5, 6});
      steps(12), generator.append(0, {7}), generator.append(1, {8});
      steps(1), generator.append(0, {9});
      steps(9), generator.end(0), steps(8);
      for (std::size_t i = all.size() - 8; i < all.size(); ++i) all[i].erase(all[i].begin());  // means nothing
      return all;
    };
    CHECK(turns(*there) == turns(*here));
  }
}

TEST_CASE("cuda: a text that ends where it fills the window leaves the others alone", "[cuda]") {
  if (!has_gpu()) return;
  for (const char* const family : {"gpt2", "llama"}) {
    const nn::TransformerSpec spec = tiny(family);
    const auto here = model_of(spec), there = on_gpu(*here);
    for (const Size length : {spec.max_seq - 6, spec.max_seq - 1}) {  // a graph with a step ahead, and none yet
      CAPTURE(family, length);
      const auto texts = [&](nn::Transformer& model) {
        Generator generator(model, 3, {.temperature = 0});
        generator.append(0, Tokens(static_cast<std::size_t>(length), 3));
        generator.append(1, {4, 5}), generator.append(2, Tokens(static_cast<std::size_t>(length - 3), 6));
        std::vector<Tokens> all;
        for (Size step = 0; step < 14; ++step) {
          all.push_back(generator.step());
          if (length + step + 1 == spec.max_seq) generator.end(0);
          all.back().erase(all.back().begin());
        }
        return all;
      };
      CHECK(texts(*there) == texts(*here));
    }
  }
}

TEST_CASE("cuda: the planned peak of generation is that of the run", "[cuda]") {
  if (!has_gpu()) return;
  for (const char* const preset : {"gpt-tiny", "llama-tiny"}) {
    for (const Size rows : {1, 3}) {
      CAPTURE(preset, rows);
      const Config config = load_config("", {{"model.preset", preset}, {"train.dtype", "bf16"}, {"train.seq", "77"}});
      const SamplePlan plan = plan_sample(config, rows, {.device = "h100"});
      memory::make_workspace(kGpu.index);
      const Size before = memory_live(kGpu).total - memory::workspace_bytes(DeviceType::cuda);
      reset_memory_peak(kGpu);
      const auto model = nn::make_transformer(*resolve(config, 1).transformer);
      model->materialize(kGpu, DType::bf16, 5);
      generated(*model, std::vector<Tokens>(static_cast<std::size_t>(rows), Tokens(77)), {.tokens = 9});
      CHECK(memory_peak(kGpu).total - before == plan.peak_bytes);
    }
  }
}
