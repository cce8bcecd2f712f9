// Copies of the state in host memory: which of them a restart finds, and that they hold the engine's state.
#include "save/memory_restore.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "checkpoints/memory/memory_copy.h"
#include "checkpoints/memory/memory_folder.h"
#include "libtrain/nn/models.h"
#include "save/memory_checkpoints.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt::saver;

namespace {

struct SmallEngine {
  nn::Gpt2 model{{.layers = 1, .heads = 1, .width = 4, .vocab = 8, .max_seq = 4}};
  Engine engine{model, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 4}};

  void step() {
    const std::vector<std::int32_t> ids(4, 1);
    engine.step({Tensor::from(ids, {1, 4}), Tensor::from(ids, {1, 4})});
  }
  std::vector<std::vector<float>> state() const {
    std::vector<std::vector<float>> values;
    for (const StateRange& range : engine.shard_map().owned) values.push_back(range.values.to_vector<float>());
    return values;
  }
};

// A run that made copies after steps 1 to `last` and was then killed: its copies stay.
RunIdentity killed_after(Size last, SmallEngine& run) {
  RunIdentity identity = new_identity();
  identity.timeline = "00000000000000a1";
  const StateCopy copy(run.engine, run.engine.shard_map().owned);
  const auto recorded = std::make_shared<RecordedSteps>(0);
  MemoryCheckpoints memory(run.engine, copy, Group(), identity, 0, recorded);
  for (Size step = 1; step <= last; ++step) {
    run.step();
    const auto program = std::make_shared<State>();
    memory.copy(program);
    (*program)["step"] = std::to_string(step);  // the program sees the step while the copy is under way
    recorded->add(step);
  }
  return identity;
}

// Removes the copies of the run when the test ends.
struct Cleanup {
  std::string run;
  ~Cleanup() { remove_memory(Group(), run); }
};

}  // namespace

TEST_CASE("memory: a restart finds the newest copy, with every value of the state", "[train]") {
  SmallEngine killed, restarted;
  const RunIdentity run = killed_after(3, killed);
  const Cleanup cleanup{run.id};
  const MemoryRestore found(Group(), run.id, run.timeline);
  REQUIRE(found.step() == 3);
  CHECK(found.load(restarted.engine).step == 3);
  CHECK(found.program_state() == State{{"step", "3"}});
  CHECK(restarted.engine.steps_done() == 3);
  CHECK(restarted.engine.samples_done() == 3);
  CHECK(restarted.state() == killed.state());
  killed.step(), restarted.step();
  CHECK(restarted.state() == killed.state());
}

TEST_CASE("memory: copies of another run or timeline are not found, and none once they are removed", "[train]") {
  SmallEngine killed;
  const RunIdentity run = killed_after(2, killed);
  const Cleanup cleanup{run.id};
  CHECK(MemoryRestore(Group(), run.id, "00000000000000a2").step() == 0);
  CHECK(MemoryRestore(Group(), new_identity().id, run.timeline).step() == 0);
  CHECK(MemoryRestore(Group(), run.id, run.timeline).step() == 2);
  remove_memory(Group(), run.id);
  CHECK(MemoryRestore(Group(), run.id, run.timeline).step() == 0);
}

TEST_CASE("memory: a damaged copy is passed over for the one before it", "[train]") {
  SmallEngine killed, restarted;
  const RunIdentity run = killed_after(3, killed);
  const Cleanup cleanup{run.id};
  // A run adds the checksum of its last copy while it makes the next one.
  for (const auto& [name, copy] : checkpoint::memory_copies(run.id)) copy->add_checksum([] { return false; });
  // Two slots hold steps 2 and 3. In each in turn the last byte that is not zero, a value's, changes.
  const auto step_without = [&](const std::filesystem::path& file) {
    const std::string whole = lt_test::read_text(file);
    std::string damaged = whole;
    char& last = damaged[damaged.find_last_not_of('\0')];
    last = static_cast<char>(last ^ 1);
    lt_test::write_text(file, damaged);
    const Size step = MemoryRestore(Group(), run.id, run.timeline).step();
    lt_test::write_text(file, whole);
    return step;
  };
  std::vector<Size> steps;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint::memory_folder(run.id))) {
    steps.push_back(step_without(entry.path()));
  }
  std::sort(steps.begin(), steps.end());
  CHECK(steps == std::vector<Size>{2, 3});
}

TEST_CASE("memory: a copy of another model is an error", "[train]") {
  SmallEngine killed;
  const RunIdentity run = killed_after(1, killed);
  const Cleanup cleanup{run.id};
  nn::Gpt2 wider({.layers = 1, .heads = 1, .width = 8, .vocab = 8, .max_seq = 4});
  Engine other(wider, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 4});
  const MemoryRestore found(Group(), run.id, run.timeline);
  REQUIRE(found.step() == 1);
  CHECK_THROWS_AS(found.load(other), DataError);
}
