// An engine whose group has memory that peers can write: the memory's contents, and that it changes neither bits nor
// counts. The memory is CPU memory, so that the test runs everywhere; tests/comm/nccl_windows_test.cpp tests NCCL's
// windows.
#include <algorithm>
#include <map>
#include <utility>

#include "comm/backend.h"
#include "comm/mpi/mpi_group.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "memory/allocation.h"
#include "memory/ledger.h"
#include "parallel/step_memory.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::parallel;
using namespace lt_test;

namespace {

// Records the blocks that it takes from the device's allocator.
class Source final : public memory::BlockSource {
 public:
  Block allocate(Size bytes, MemoryOwner owner) override {
    auto* const data = static_cast<std::byte*>(memory::allocator(kCpu).allocate(bytes));
    memory::ledger_add(kCpu, owner, bytes);
    live.emplace(made, std::pair{data, bytes});
    owners.push_back(owner);
    return {data, made++};
  }
  void release(std::size_t index) noexcept override {
    const auto [data, bytes] = live.at(index);
    memory::ledger_add(kCpu, owners[index], -bytes);
    memory::allocator(kCpu).deallocate(data, bytes);
    live.erase(index);
  }
  bool holds(const void* begin) const {
    for (const auto& [index, block] : live) {
      if (begin >= block.first && begin < block.first + block.second) return true;
    }
    return false;
  }

  std::size_t made = 0;
  std::vector<MemoryOwner> owners;
  std::map<std::size_t, std::pair<std::byte*, Size>> live;
};

// A group with `source` for what arrives in it.
class WithMemory final : public comm::GroupBackend {
 public:
  WithMemory(std::shared_ptr<comm::GroupBackend> inner, std::shared_ptr<Source> source)
      : comm::GroupBackend(inner->place()), inner_(std::move(inner)), source_(std::move(source)) {}

  bool takes(Device device) const override { return inner_->takes(device); }
  PeerMemory peer_memory(Device) override { return {source_, {}}; }
  std::unique_ptr<comm::Transfer> all_gather(const comm::AllGatherCall& call) override {
    if (place().name == "gather") CHECK(source_->holds(call.full_N));
    return inner_->all_gather(call);
  }
  std::unique_ptr<comm::Transfer> reduce_scatter(const comm::ReduceScatterCall& call) override {
    if (size() > 1 && call.n > 0) CHECK(source_->holds(call.incoming));
    return inner_->reduce_scatter(call);
  }
  std::unique_ptr<comm::Transfer> all_to_all(const comm::AllToAllCall& call) override {
    return inner_->all_to_all(call);
  }
  std::unique_ptr<comm::Transfer> broadcast(const comm::BroadcastCall& call) override {
    return inner_->broadcast(call);
  }
  void barrier() override { inner_->barrier(); }
  std::vector<std::string> all_gather_bytes(const std::string& mine) override { return inner_->all_gather_bytes(mine); }
  std::string broadcast_bytes(const std::string& value, int root) override {
    return inner_->broadcast_bytes(value, root);
  }
  std::shared_ptr<comm::GroupBackend> split(const std::vector<int>& colors, std::string name) override {
    return std::make_shared<WithMemory>(inner_->split(colors, std::move(name)), source_);
  }
  std::shared_ptr<comm::GroupBackend> duplicate_patient(std::string name) override {
    return inner_->duplicate_patient(std::move(name));
  }

 private:
  std::shared_ptr<comm::GroupBackend> inner_;
  std::shared_ptr<Source> source_;
};

Group with_memory(const std::shared_ptr<Source>& source) {
  auto inner = world().size() == 1 ? comm::make_self_backend({}) : comm::make_mpi_world_backend();
  return Group(std::make_shared<WithMemory>(std::move(inner), source));
}

}  // namespace

TEST_CASE("peer memory changes no bit", "[parallel]") {
  for (const Strategy& strategy : kStrategies) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const ParallelOptions parallel{.strategy = strategy};
      const EngineOptions options{.micro_batch = 2, .accum = 2, .seq = 16, .dtype = dtype};
      const auto source = std::make_shared<Source>();
      const Curve with = train_curve(small_spec("llama-tiny"), with_memory(source), parallel, options, 3);
      INFO(strategy.name << " " << dtype_name(dtype));
      CHECK(with == train_curve(small_spec("llama-tiny"), world().group(), parallel, options, 3));
      CHECK(source->live.empty());
    }
  }
}

TEST_CASE("peer memory holds the arena, and what is gathered elsewhere", "[parallel]") {
  const nn::TransformerSpec spec = small_spec("llama-tiny");
  for (const Strategy& strategy : kStrategies) {
    const auto source = std::make_shared<Source>();
    const auto count = [&](MemoryOwner owner) {
      return static_cast<std::size_t>(std::count(source->owners.begin(), source->owners.end(), owner));
    };
    const auto peak = [&](const Group& group) {
      const auto model = nn::make_transformer(spec);
      Engine engine(*model, group, {.strategy = strategy}, AdamW{},
                    {.micro_batch = 1, .seq = 16, .dtype = DType::bf16});
      const Batch batch = rows_of_step(engine.batch_shape(), 0, spec.vocab);
      engine.rehearse(batch);
      reset_memory_peak(kCpu);
      engine.step(batch);
      if (&group != &world().group()) {
        INFO(strategy.name);
        const bool gathers_gradients = strategy.optimizer == Placement::replicated;
        const bool gathers_in_arena = strategy.parameters == Placement::sharded;
        CHECK(engine.peer_memory() == "symmetric windows");
        CHECK(count(MemoryOwner::parameters) == (gathers_gradients || gathers_in_arena ? 0 : 1));
        CHECK(count(MemoryOwner::gradients) == (gathers_gradients ? 1 : 0));
        CHECK(count(MemoryOwner::slack) == 1);
      }
      return memory_peak_by_owner(kCpu);
    };
    const MemoryUse with = peak(with_memory(source)), without = peak(world().group());
    INFO(strategy.name);
    CHECK(with.total == without.total);
    CHECK(with.by_owner == without.by_owner);
  }
}

TEST_CASE("peer memory: a larger arena comes when the smaller one is back", "[parallel]") {
  const auto source = std::make_shared<Source>();
  StepMemory memory(kCpu, source);
  const auto run = [&](Size elements) {
    const Batch batch{Tensor::empty({elements}, DType::f32), {}};
    memory.run(
        "program", batch,
        [&](const std::string& name, const Batch& shapes) {
          return memory::record_memory_plan(name, kMeta,
                                            [&] { Tensor::empty(shapes.inputs.shape(), DType::f32, kMeta); });
        },
        [&] {
          const Tensor block = Tensor::empty({elements}, DType::f32);
          CHECK(source->holds(block.data()));
        });
    CHECK(source->live.size() == 1);
  };
  run(64);
  CHECK(memory.arena_number() == 1);
  run(4096);
  CHECK(memory.arena_number() == 2);
  run(64);
  CHECK(memory.arena_number() == 2);
  CHECK(source->made == 2);
}

TEST_CASE("programs of an arena in windows have the same places on all ranks", "[parallel]") {
  const auto program = [](Size elements) {
    return memory::record_memory_plan("program", kMeta, [&] {
      const Tensor first = Tensor::empty({elements}, DType::f32, kMeta), second = Tensor::empty({1}, DType::f32, kMeta);
    });
  };
  require_same_places(program(64), world().group());
  if (world().size() == 1) return;
  CHECK_THROWS_AS(require_same_places(program(64 * (1 + world().rank() / (world().size() - 1))), world().group()),
                  InternalError);
}

TEST_CASE("peer memory: groups of the CPU have none, and say nothing of it", "[parallel]") {
  for (const Group& group : {Group(), world().group(), Group::meta(0, 4, DeviceType::cuda)}) {
    const PeerMemory memory = group.peer_memory(kCpu);
    CHECK(memory.windows == nullptr);
    CHECK(memory.why_none.empty());
  }
}
