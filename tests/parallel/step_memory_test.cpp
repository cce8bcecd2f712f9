// A step in the arena: the same bits as without the arena, no allocation from the system, and a use after a block's
// lifetime is caught.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>

#include "libtrain/error.h"
#include "libtrain/nn/layers.h"
#include "libtrain/ops/ops.h"
#include "libtrain/parallel/engine.h"
#include "memory/allocator.h"
#include "parallel/for_tests.h"
#include "parallel/step_memory.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::parallel;
using namespace lt_test;

namespace {

std::atomic<Size> host_allocations{0};

}  // namespace

// Every allocation on the host, of this library or another, goes through here; AddressSanitizer has operators of its
// own. Not inlined: the compiler would take the call of free() for a mistake.
#ifndef __SANITIZE_ADDRESS__
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++host_allocations;
  if (void* block = std::malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }
#endif

TEST_CASE("the arena changes no bit", "[parallel]") {
  for (const char* preset : {"gpt-tiny", "llama-tiny"}) {
    for (const Strategy& strategy : kStrategies) {
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        const ParallelOptions parallel{.strategy = strategy, .recompute = recompute};
        const EngineOptions options{.micro_batch = 2, .accum = 2, .seq = 16, .dtype = DType::bf16};
        const Curve with = train_curve(small_spec(preset), world().group(), parallel, options, 3);
        const parallel::SeparateAllocationScope separate;
        const Curve without = train_curve(small_spec(preset), world().group(), parallel, options, 3);
        INFO(preset << " " << strategy.name << " recompute " << static_cast<int>(recompute));
        CHECK(with == without);
      }
    }
  }
}

TEST_CASE("twenty steps take no memory from the system, and the same small change from the host's heap", "[parallel]") {
  for (const Strategy& strategy : kStrategies) {
    const nn::TransformerSpec spec = small_spec("llama-tiny");
    const auto model = nn::make_transformer(spec);
    Engine engine(*model, world().group(), {.strategy = strategy, .recompute = Recompute::selective}, AdamW{},
                  {.micro_batch = 2, .accum = 2, .seq = 16});
    const Batch batch = rows_of_step(engine.batch_shape(), 0, spec.vocab);
    engine.step(batch);
    engine.step(batch);
    const Size system = memory::system_allocations(), live = memory_live(kCpu).total;
    Size first = 0, most = 0;
    for (int step = 0; step < 20; ++step) {
      const Size before = host_allocations;
      engine.step(batch);
      if (step == 0) first = host_allocations - before;
      most = std::max(most, host_allocations - before);
    }
    INFO(strategy.name << ": " << first << " host allocations in a step");
    CHECK(memory::system_allocations() == system);
    CHECK(memory_live(kCpu).total == live);
    // docs/explanation/memory.md says what they are: tape entries, tensor headers, handles of collectives. They do not
    // grow.
#ifndef __SANITIZE_ADDRESS__
    CHECK(first > 100);
    CHECK(most <= first + first / 10);
    CHECK(first < 2000);
#endif
  }
}

TEST_CASE("a thousand steps hold less than a mebibyte more than one, and an engine's end gives all back",
          "[parallel]") {
  const auto resident_bytes = [] {
    std::ifstream statm("/proc/self/statm");
    Size size = 0, resident = 0;
    statm >> size >> resident;
    return resident * ::sysconf(_SC_PAGESIZE);
  };
  nn::TransformerSpec spec = small_spec("gpt-tiny");
  spec.layers = 1, spec.width = 8, spec.heads = 1, spec.kv_heads = 1, spec.ffn = 8, spec.vocab = 16;
  for (const Strategy& strategy : {Strategy::ddp, Strategy::zero3}) {
    INFO(strategy.name);
    const Size before = memory_live(kCpu).total;
    auto model = nn::make_transformer(spec);
    auto engine = std::make_unique<Engine>(*model, world().group(), ParallelOptions{.strategy = strategy}, AdamW{},
                                           EngineOptions{.micro_batch = 1, .accum = 2, .seq = 4});
    const auto steps = [&](int count) {
      const Batch batch = rows_of_step(engine->batch_shape(), 0, spec.vocab);
      for (int step = 0; step < count; ++step) engine->step(batch);
    };
    steps(100);
    take_comm_totals();
    const Size live = memory_live(kCpu).total;
    [[maybe_unused]] const Size resident = resident_bytes();
    CHECK(live > before);
    steps(1000);
    take_comm_totals();
    CHECK(memory_live(kCpu).total == live);
#ifndef __SANITIZE_ADDRESS__  // it keeps freed memory
    CHECK(resident_bytes() - resident < Size{1} << 20);
#endif
    engine.reset();
    model.reset();  // it keeps parameters that are not sharded
    memory::trim(kCpu);
    CHECK(memory_live(kCpu).total == before);
  }
}

TEST_CASE("programs and graphs tell batches apart by shapes and dtypes of their tensors", "[parallel]") {
  const auto batch = [](Size targets, DType dtype) {
    return Batch{Tensor::zeros({2, 8}, DType::i32), Tensor::zeros({2, targets}, dtype)};
  };
  const std::string some = shapes_of(batch(8, DType::i32));
  CHECK(some == shapes_of(batch(8, DType::i32)));
  CHECK(some != shapes_of(batch(4, DType::i32)));
  Batch documents = batch(8, DType::i32);
  documents.document_starts = Tensor::zeros({2, 8}, DType::i32);
  CHECK(some != shapes_of(documents));
  CHECK(some != shapes_of(batch(8, DType::f32)));
  CHECK(some != shapes_of({Tensor::zeros({2, 8}, DType::f32), Tensor::zeros({2, 8}, DType::i32)}));
  CHECK(shapes_of({Tensor::zeros({2}, DType::i32), {}}) != shapes_of({{}, Tensor::zeros({2}, DType::i32)}));
}

TEST_CASE("a step that allocates otherwise than it was rehearsed names the operation", "[parallel]") {
  // Takes one path with shapes alone and another with numbers.
  struct Fickle : nn::Model {
    struct Layer : nn::Module {
      Layer() : linear(add<nn::Linear>("linear", {.in = 8, .out = 64, .init = nn::Init::normal(0.3f)})) {}
      nn::Linear& linear;
    };
    Fickle() : layer(add_unit<Layer>("layer")) {}
    Tensor loss(const Batch& batch) override {
      const auto body = [this](const Tensor& x) {
        const Tensor y = layer.linear(x);
        return ops::mean(x.device().is_meta() ? ops::gelu(y) : ops::softmax(ops::slice(y, 1, 0, 32)));
      };
      return run(layer, body, batch.inputs);
    }
    Layer& layer;
  };
  for (const Strategy& strategy : kStrategies) {
    Fickle model;
    Engine engine(model, world().group(), {.strategy = strategy}, AdamW{}, {.micro_batch = 2});
    const Batch batch{Tensor::zeros({2, 8}, DType::f32), Tensor::zeros({2, 8}, DType::f32)};
    std::string message;
    try {
      engine.step(batch);
    } catch (const UsageError& error) {
      message = error.what();
    }
    CHECK_THAT(message, Catch::Matchers::ContainsSubstring("step, allocation ") &&
                            Catch::Matchers::ContainsSubstring("of activations in gelu") &&
                            Catch::Matchers::ContainsSubstring("of activations in slice"));
    CHECK_THROWS_AS(engine.step(batch), UsageError);  // the step failed half-way
  }
}
