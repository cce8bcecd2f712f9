// find_start(): from which state a run starts, by what its folder, another run's folder and the hosts' memory hold.
#include "run/find_start.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/config_layers.h"
#include "libtrain/error.h"
#include "libtrain/nn/models.h"
#include "save/engine_checkpoint.h"
#include "save/memory_checkpoints.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt::run;
using lt_test::TempFolder;

namespace {

using Keys = std::vector<std::pair<std::string, std::string>>;

// One start of a small run, up to its first step.
struct Begun {
  explicit Begun(const std::string& run_dir, Keys more = {})
      : resolved(resolve(load_config("", keys(run_dir, std::move(more))), 1, DeviceType::cpu)),
        model(make_model(resolved)),
        engine(*model, Group(), resolved.parallel, resolved.optimizers, resolved.step),
        folder(examine_run_folder(resolved, {})),
        found(find_start(resolved, Group(), engine, folder, {})) {
    open_run_folder(resolved, folder, found.start, 1000);
    saver::write_identity(resolved.run.dir, folder.identity);
  }

  static Keys keys(const std::string& run_dir, Keys more) {
    Keys all = {{"model.layers", "1"}, {"model.heads", "1"},    {"model.width", "4"},       {"model.ffn", "4"},
                {"model.vocab", "8"},  {"model.max_seq", "4"},  {"train.micro_batch", "1"}, {"train.steps", "9"},
                {"run.dir", run_dir},  {"data.train", "a.bin"}, {"train.device", "cpu"}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void steps(Size count) {
    const std::vector<std::int32_t> ids(4, 1);
    for (Size i = 0; i < count; ++i) engine.step({Tensor::from(ids, {1, 4}), Tensor::from(ids, {1, 4})});
  }
  std::string save() {
    checkpoint::RunState state = saver::state_of(engine, engine.loss_scale());
    state.run = folder.identity.id, state.parent = folder.identity.parent;
    state.config = to_toml(resolved.config);
    return checkpoint::save(resolved.checkpoint.dir, saver::saved_state(engine), state, Group(),
                            saver::save_options(resolved.checkpoint, folder.identity));
  }
  std::vector<float> weights() const { return engine.shard_map().owned.front().values.to_vector<float>(); }
  template <class Kind>
  bool is() const {
    return std::holds_alternative<Kind>(found.start);
  }

  Resolved resolved;
  const std::unique_ptr<nn::Model> model;
  Engine engine;
  RunFolder folder;
  FoundStart found;
};

// Changes the last byte of a checkpoint, so that only its checksum tells.
void damage(const std::string& step_folder) {
  const std::filesystem::path file = std::filesystem::path(step_folder) / "rank-00000.h5";
  std::string bytes = lt_test::read_text(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  lt_test::write_text(file, bytes);
}

// A run that saved after steps 2 and 4, and the folders of these checkpoints.
std::pair<std::string, std::string> saved_twice(const std::string& run_dir) {
  Begun first(run_dir);
  first.steps(2);
  const std::string two = first.save();
  first.steps(2);
  return {two, first.save()};
}

}  // namespace

TEST_CASE("start: an empty folder is a new run with the weights of train.seed", "[train]") {
  const TempFolder temp;
  const Begun a(temp / "a"), b(temp / "b"), other(temp / "c", {{"train.seed", "2"}});
  CHECK(a.is<Fresh>());
  CHECK(a.engine.steps_done() == 0);
  CHECK(a.weights() == b.weights());
  CHECK(a.weights() != other.weights());
  CHECK(a.folder.identity.is_new);
  CHECK_FALSE(goes_on(a.resolved));
}

TEST_CASE("start: a run continues from its newest valid checkpoint", "[train]") {
  const TempFolder temp;
  const auto [two, four] = saved_twice(temp / "run");
  std::string id;
  {
    const Begun again(temp / "run");
    REQUIRE(again.is<FromDisk>());
    CHECK(std::get<FromDisk>(again.found.start).checkpoint.folder == four);
    CHECK(again.engine.steps_done() == 4);
    CHECK(again.found.passed_over.empty());
    CHECK(goes_on(again.resolved));
    id = again.folder.identity.id;
  }
  damage(four);
  {
    const Begun again(temp / "run");
    REQUIRE(again.is<FromDisk>());
    CHECK(again.engine.steps_done() == 2);
    REQUIRE(again.found.passed_over.size() == 1);
    CHECK_THAT(again.found.passed_over[0], Catch::Matchers::ContainsSubstring("step-00000004: rank-00000.h5"));
    CHECK(again.folder.identity.id == id);
  }
  damage(two);
  const Begun over(temp / "run");  // nothing valid is left: it starts over, and the damaged ones are moved aside
  CHECK(over.is<Fresh>());
  CHECK(over.found.passed_over.size() == 2);
  CHECK_THAT(over.folder.starting_over, Catch::Matchers::ContainsSubstring("starting over at step 1"));
  CHECK(over.weights() == Begun(temp / "new").weights());
}

TEST_CASE("start: a run with all its steps is complete, and continues with more", "[train]") {
  const TempFolder temp;
  saved_twice(temp / "run");
  CHECK(Begun(temp / "run", {{"train.steps", "4"}}).is<Complete>());
  CHECK(Begun(temp / "run", {{"train.steps", "3"}}).is<Complete>());
  CHECK(Begun(temp / "run", {{"train.steps", "5"}}).is<FromDisk>());
}

TEST_CASE("start: a run from another run's checkpoint begins there again while it has saved nothing", "[train]") {
  const TempFolder temp;
  const auto [two, four] = saved_twice(temp / "first");
  std::vector<float> weights;
  {
    const Begun second(temp / "second", {{"checkpoint.resume", two}});
    REQUIRE(second.is<FromOtherRun>());
    CHECK(second.engine.steps_done() == 2);
    CHECK_FALSE(std::get<FromOtherRun>(second.found.start).begins_data);
    CHECK(second.folder.identity.parent == checkpoint::read_state(two).run);
    weights = second.weights();
  }
  Begun again(temp / "second");
  REQUIRE(again.is<FromOtherRun>());
  CHECK(again.weights() == weights);
  again.steps(1);
  again.save();
  const Begun later(temp / "second");
  CHECK(later.is<FromDisk>());
  CHECK(later.engine.steps_done() == 3);
  for (const char* missing : {"nowhere", "first/checkpoints/step-00000003"}) {
    CHECK_THROWS_AS(Begun(temp / "third", {{"checkpoint.resume", temp / missing}}), DataError);
  }
}

TEST_CASE("start: checkpoint.resume=never begins anew, and only in an empty folder or by run.force", "[train]") {
  const TempFolder temp;
  saved_twice(temp / "run");
  CHECK_THROWS_AS(Begun(temp / "run", {{"checkpoint.resume", "never"}}), UsageError);
  const Begun forced(temp / "run", {{"checkpoint.resume", "never"}, {"run.force", "true"}});
  CHECK(forced.is<Fresh>());
  CHECK(forced.folder.moves_aside);
}

TEST_CASE("start: other keys of the model, the data or the optimizer are refused by name", "[train]") {
  const TempFolder temp;
  saved_twice(temp / "run");
  for (const auto& [key, value] : {std::pair{"model.width", "8"}, {"optim.lr", "0.5"}, {"data.seed", "5"}}) {
    CHECK_THROWS_WITH(Begun(temp / "run", {{key, value}}), Catch::Matchers::ContainsSubstring(std::string(key) + ": "));
  }
  // Strategy, steps and cadence may change.
  const Begun changed(temp / "run", {{"parallel.strategy", "zero3"}, {"checkpoint.every", "7"}});
  CHECK(changed.engine.steps_done() == 4);
}

TEST_CASE("start: copies in memory count where they are newer than the disk", "[train]") {
  const TempFolder temp;
  const Keys memory = {{"checkpoint.memory_every", "1"}};
  struct Cleanup {
    std::string run;
    ~Cleanup() { saver::remove_memory(Group(), run); }
  } cleanup;
  std::vector<float> weights;
  {
    Begun first(temp / "run", memory);
    cleanup.run = first.folder.identity.id;
    const saver::StateCopy copy(first.engine, saver::saved_state(first.engine).owned);
    const auto recorded = std::make_shared<saver::RecordedSteps>(0);
    saver::MemoryCheckpoints copies(first.engine, copy, Group(), first.folder.identity, 0, recorded);
    for (Size step = 1; step <= 3; ++step) {
      first.steps(1);
      if (step == 2) first.save();
      copies.copy(std::make_shared<State>(State{{"step", std::to_string(step)}}));
      recorded->add(step);
    }
    weights = first.weights();
  }
  const checkpoint::ComputedBy of_last_start = {{"gpu", "NVIDIA H200"}, {"algorithms", "3f"}};
  temp.write("run/env.json", R"({"computed_by": {"gpu": "NVIDIA H200", "algorithms": "3f", "later": 5}})");
  {
    Begun again(temp / "run", memory);
    REQUIRE(again.is<FromMemory>());
    CHECK(state_of(again.found.start).computed_by == of_last_start);
    CHECK(again.engine.steps_done() == 3);
    CHECK(std::get<FromMemory>(again.found.start).newest_on_disk == 2);
    CHECK(state_of(again.found.start).program == State{{"step", "3"}});
    CHECK(again.weights() == weights);
    again.steps(1);
    again.save();
  }
  const Begun last(temp / "run", memory);
  REQUIRE(last.is<FromDisk>());  // step 4 of the disk is newer than step 3 of memory
  CHECK(last.engine.steps_done() == 4);
  CHECK(Begun(temp / "run").is<FromDisk>());
}
