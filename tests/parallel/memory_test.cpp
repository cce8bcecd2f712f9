// The memory of each strategy, measured by the allocator's high-water marks and compared with the formulas of
// docs/explanation/memory.md and their bounds in a step.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/memory/memory.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/profile/timeline.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

struct Held {
  MemoryUse idle, peak;
  double padded, largest;
};

Held measure(const nn::TransformerSpec& spec, const ParallelOptions& parallel, DType dtype) {
  const auto model = nn::make_transformer(spec);
  const MemoryUse before = memory_live(kCpu);
  Engine engine(*model, world().group(), parallel, AdamW{}, {.micro_batch = 1, .seq = 16, .dtype = dtype});
  const Batch batch = rows_of_step(engine.batch_shape(), 0, spec.vocab);
  engine.step(batch);
  Held held;
  held.padded = static_cast<double>(engine.padded_parameters());
  held.largest = static_cast<double>(engine.largest_unit());
  held.idle = memory_live(kCpu);
  reset_memory_peak(kCpu);
  engine.step(batch);
  held.peak = memory_peak_by_owner(kCpu);
  for (MemoryUse* use : {&held.idle, &held.peak}) {
    for (std::size_t i = 0; i < kMemoryOwners; ++i) use->by_owner[i] -= before.by_owner[i];
  }
  return held;
}

// Notes the memory that is held whenever an activity of a step begins or ends.
class MemoryOfActivities final : public Timeline {
 public:
  struct Note {
    std::string name;
    MemoryUse use;
  };
  explicit MemoryOfActivities(Device device) : device_(device) {}

  std::size_t begin(Span span, const TimePoint&) override {
    names_.push_back(span.is_activity ? span.name : "");
    note(names_.size() - 1, " begins");
    return names_.size() - 1;
  }
  void end(std::size_t handle, const TimePoint&) override { note(handle, " ends"); }
  TimePoint now() override { return {}; }
  const std::vector<Span>& spans() override { return none_; }

  std::vector<Note> notes;

 private:
  void note(std::size_t handle, const char* what) {
    if (!names_[handle].empty()) notes.push_back({names_[handle] + what, memory_live(device_)});
  }
  const Device device_;
  std::vector<std::string> names_;
  std::vector<Span> none_;
};

double bytes(const MemoryUse& use, MemoryOwner owner) { return static_cast<double>(use.of(owner)); }

}  // namespace

TEST_CASE("state of each strategy equals its formula", "[parallel]") {
  const double n = world().size();
  const nn::TransformerSpec spec = small_spec("llama-tiny");
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const bool mixed = dtype != DType::f32;
    for (const Strategy& strategy : kStrategies) {
      const Held held = measure(spec, {.strategy = strategy}, dtype);
      const auto share = [&](Placement placement) {
        return placement == Placement::sharded ? held.padded / n : held.padded;
      };
      INFO(strategy.name << " " << dtype_name(dtype) << " ranks " << n);
      CHECK(bytes(held.idle, MemoryOwner::parameters) == (mixed ? 2 : 4) * share(strategy.parameters));
      CHECK(bytes(held.idle, MemoryOwner::gradients) == 4 * share(strategy.gradients));
      CHECK(bytes(held.idle, MemoryOwner::optimizer) == (mixed ? 12 : 8) * share(strategy.optimizer));
    }
  }
}

TEST_CASE("ZeRO-3 holds two gathered units at most, ZeRO-2 two units' gradients", "[parallel]") {
  const double n = world().size();
  nn::TransformerSpec spec = small_spec("llama-tiny");
  spec.layers = 6;  // many blocks, which are the largest units
  const Held zero3 = measure(spec, {.strategy = Strategy::zero3}, DType::f32);
  CHECK(bytes(zero3.peak, MemoryOwner::parameters) <= 4 * (zero3.padded / n + 2 * zero3.largest));
  CHECK(bytes(zero3.peak, MemoryOwner::gradients) <= 4 * (zero3.padded / n + 2 * zero3.largest));
  const Held zero2 = measure(spec, {.strategy = Strategy::zero2}, DType::f32);
  CHECK(bytes(zero2.peak, MemoryOwner::parameters) == 4 * zero2.padded);
  CHECK(bytes(zero2.peak, MemoryOwner::gradients) <= 4 * (zero2.padded / n + 2 * zero2.largest));
}

TEST_CASE("ZeRO-3 that keeps what it gathered until the backward pass: the same bits, fewer gathers, more memory",
          "[parallel]") {
  Strategy keeps = Strategy::zero3;
  keeps.name = "keeps", keeps.reshard_after_forward = false;
  nn::TransformerSpec spec = small_spec("llama-tiny");
  spec.layers = 6;
  const auto gathers = [&](const Strategy& strategy, Recompute recompute) {
    const auto model = nn::make_transformer(spec);
    Engine engine(*model, world().group(), {.strategy = strategy, .recompute = recompute}, AdamW{},
                  {.micro_batch = 1, .accum = 2, .seq = 16});
    const Batch batch = rows_of_step(engine.batch_shape(), 0, spec.vocab);
    engine.step(batch);
    take_comm_totals();
    engine.step(batch);
    for (const CommTotal& total : take_comm_totals()) {
      if (total.op == CollectiveOp::all_gather) return total.calls;
    }
    return Size{0};
  };
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    const EngineOptions options{.micro_batch = 1, .accum = 2, .seq = 16};
    const auto train = [&](const Strategy& strategy) {
      return train_curve(spec, world().group(), {.strategy = strategy, .recompute = recompute}, options, 3);
    };
    CHECK(train(keeps) == train(Strategy::zero3));
    // Embedding, head and six blocks; both micro-batches gather each block twice, or once. The head is never freed
    // between its passes.
    CHECK(gathers(Strategy::zero3, recompute) - gathers(keeps, recompute) == 2 * (1 + 6));
  }
  const Held freed = measure(spec, {.strategy = Strategy::zero3}, DType::f32),
             kept = measure(spec, {.strategy = keeps}, DType::f32);
  const double n = world().size(), gathered = 4 * kept.padded;
  CHECK(kept.idle.of(MemoryOwner::parameters) == freed.idle.of(MemoryOwner::parameters));
  CHECK(bytes(kept.peak, MemoryOwner::parameters) == gathered / n + gathered);
}

TEST_CASE("with full recomputation ZeRO-3 grows with layers by shards and block inputs alone", "[parallel]") {
  const double n = world().size();
  const ParallelOptions parallel{.strategy = Strategy::zero3, .recompute = Recompute::full};
  nn::TransformerSpec spec = small_spec("llama-tiny");
  const auto peak = [&](Size layers) {
    spec.layers = layers;
    const Held held = measure(spec, parallel, DType::f32);
    return std::pair{held.padded, held.peak};
  };
  const auto [padded4, use4] = peak(4);
  const double input = 16.0 * static_cast<double>(spec.width) * 4;  // one sequence of 16 tokens
  for (const Size layers : {8, 16}) {
    const auto [padded, use] = peak(layers);
    const double more = padded - padded4, blocks = static_cast<double>(layers - 4);
    INFO(layers << " layers");
    CHECK(bytes(use, MemoryOwner::parameters) - bytes(use4, MemoryOwner::parameters) == 4 * more / n);
    CHECK(bytes(use, MemoryOwner::gradients) - bytes(use4, MemoryOwner::gradients) == 4 * more / n);
    CHECK(bytes(use, MemoryOwner::optimizer) - bytes(use4, MemoryOwner::optimizer) == 8 * more / n);
    CHECK(bytes(use, MemoryOwner::activations) - bytes(use4, MemoryOwner::activations) == blocks * input);
  }
}

TEST_CASE("at each phase of a step the CPU holds what the meta device counts, by owner", "[parallel]") {
  const nn::TransformerSpec spec = small_spec("gpt-tiny");
  const int ranks = world().size();
  for (const Strategy& strategy : kStrategies) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      // Some are elastic, with partial sums, and among those that are not DDP some with two replicas.
      const bool is_elastic = recompute == Recompute::full && ranks != 3;
      const ParallelOptions parallel{
          .strategy = strategy,
          .shard_size = is_elastic && !strategy.shards_nothing() ? std::max(1, ranks / 2) : 0,
          .recompute = recompute,
          .deterministic = is_elastic ? Determinism::elastic : Determinism::off};
      const auto notes = [&](const Group& group, Device device) {
        const auto model = nn::make_transformer(spec);
        const MemoryUse before = memory_live(device);
        Engine engine(*model, group, parallel, AdamW{},
                      {.micro_batch = 1, .accum = is_elastic ? 4 : 2, .seq = 16, .device = device});
        Batch batch = rows_of_step(engine.batch_shape(), 0, spec.vocab);
        const Size given = batch.inputs.bytes() + batch.targets.bytes();
        if (device.is_meta()) {
          batch =
              batch.map([](const Tensor& x) { return x.defined() ? Tensor::empty(x.shape(), x.dtype(), kMeta) : x; });
        }
        engine.step(batch);
        const auto timeline = std::make_shared<MemoryOfActivities>(device);
        timeline->notes.push_back({"start", memory_live(device)});
        {
          const TimelineScope recorded(timeline);
          engine.step(batch);
        }
        timeline->notes.push_back({"end", memory_live(device)});
        for (MemoryOfActivities::Note& note : timeline->notes) {
          note.use.total -= before.total;
          for (std::size_t i = 0; i < kMemoryOwners; ++i) note.use.by_owner[i] -= before.by_owner[i];
          CHECK(note.use.total > given);
        }
        return std::move(timeline->notes);
      };
      const auto used = notes(world().group(), kCpu),
                 planned = notes(Group::meta(world().rank(), world().size()), kMeta);
      INFO(strategy.name << " recompute " << static_cast<int>(recompute));
      CHECK(used.size() == planned.size());
      CHECK(used.size() > 2 + 2 * (2 * 2 + 1));  // forward and backward of two micro-batches, and the update
      for (std::size_t i = 0; i < std::min(used.size(), planned.size()); ++i) {
        INFO(used[i].name << ", number " << i);
        CHECK(used[i].name == planned[i].name);
        CHECK(used[i].use.total == planned[i].use.total);
        CHECK(used[i].use.by_owner == planned[i].use.by_owner);
      }
      CHECK(used.front().use.by_owner == used.back().use.by_owner);
    }
  }
}

TEST_CASE("the meta device counts what the CPU takes", "[parallel]") {
  for (const Strategy& strategy : kStrategies) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      const ParallelOptions parallel{.strategy = strategy, .recompute = recompute};
      const nn::TransformerSpec spec = small_spec("gpt-tiny");
      const auto use = [&](const Group& group, Device device, bool documents = false) {
        const auto model = nn::make_transformer(spec);
        const Size before = memory_live(device).total;
        Engine engine(*model, group, parallel, AdamW{}, {.micro_batch = 1, .accum = 2, .seq = 16, .device = device});
        Batch batch = (documents ? documents_of_step : rows_of_step)(engine.batch_shape(), 0, spec.vocab);
        if (device.is_meta()) {
          batch =
              batch.map([](const Tensor& x) { return x.defined() ? Tensor::empty(x.shape(), x.dtype(), kMeta) : x; });
        }
        engine.step(batch);
        reset_memory_peak(device);
        take_comm_totals();
        engine.step(batch);
        std::vector<std::pair<Size, Size>> comm;
        for (const CommTotal& total : take_comm_totals()) comm.emplace_back(total.bytes, total.calls);
        return std::pair{memory_peak(device).total - before, comm};
      };
      INFO(strategy.name << " recompute " << static_cast<int>(recompute));
      const Group meta = Group::meta(world().rank(), world().size());
      CHECK(use(world().group(), kCpu) == use(meta, kMeta));
      if (recompute == Recompute::full) CHECK(use(world().group(), kCpu, true) == use(meta, kMeta, true));
    }
  }
}
