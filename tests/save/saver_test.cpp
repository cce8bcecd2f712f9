// The saver: at which steps it saves, how it retries a failed save, and what reaches the disk.
#include "save/saver.h"

#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "checkpoints/format/find.h"
#include "libtrain/nn/models.h"
#include "save/engine_checkpoint.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt::saver;
using lt_test::TempFolder;

namespace {

// A small run on one rank with a clock that only advances when the test says so.
struct SmallRun {
  explicit SmallRun(const CheckpointConfig& given,
                    const nn::TransformerSpec& spec = {.layers = 1, .heads = 1, .width = 4, .vocab = 8, .max_seq = 4})
      : policy(given), model(spec) {
    if (policy.dir.empty()) policy.dir = folder / "checkpoints";
    log.open(folder.text());
  }

  SavedRun saved(Size newest_on_disk = -1, std::optional<Size> from_memory = {}) {
    return {.engine = engine,
            .control = group,
            .world = group,
            .policy = policy,
            .run_dir = run_dir,
            .identity = identity,
            .log = log,
            .steps = 100,
            .data_tokens = 0,
            .copies_to_memory = false,
            .newest_on_disk = newest_on_disk,
            .from_memory = from_memory,
            .program = program,
            .state =
                [this](const LossScale& scale) {
                  now_s += save_s;
                  checkpoint::RunState state = state_of(engine, scale);
                  state.run = identity.id;
                  return state;
                },
            .now = [this] { return std::chrono::steady_clock::time_point() + std::chrono::seconds(now_s); }};
  }

  void unrecorded_step() {
    const std::vector<std::int32_t> ids(4, 1);
    engine.step({Tensor::from(ids, {1, 4}), Tensor::from(ids, {1, 4})});
  }
  // A step and its row in the record, as the training loop makes them.
  void step(Saver& saver) {
    unrecorded_step();
    saver.recorded(engine.steps_done());
  }
  // Makes steps up to `last` and saves where a save is due. Returns the steps after which one was.
  std::vector<Size> due_steps(Saver& saver, Size last) {
    std::vector<Size> due;
    while (engine.steps_done() < last) {
      step(saver);
      if (!saver.is_due(engine.steps_done())) continue;
      due.push_back(engine.steps_done());
      saver.save();
    }
    return due;
  }
  std::vector<Size> steps_on_disk() const {
    std::vector<Size> steps;
    if (!std::filesystem::exists(policy.dir)) return steps;
    for (const checkpoint::Listing& entry : checkpoint::list(policy.dir, true)) {
      if (entry.valid) steps.push_back(entry.step);
    }
    return steps;
  }
  // The events of that name in metrics.jsonl.
  std::vector<nlohmann::json> events(const std::string& name) const {
    std::vector<nlohmann::json> found;
    std::istringstream lines(folder.read("metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json event = nlohmann::json::parse(line);
      if (event["event"] == name) found.push_back(std::move(event));
    }
    return found;
  }

  TempFolder folder;
  CheckpointConfig policy;
  const std::string run_dir = folder.text();
  const RunIdentity identity = new_identity();
  const Group group;
  nn::Gpt2 model;
  Engine engine{model, group, {}, AdamW{}, {.micro_batch = 1, .seq = 4}};
  recorder::RunLog log;
  State program;
  int now_s = 0, save_s = 0;  // the clock, and what a save takes of it
};

using Steps = std::vector<Size>;

}  // namespace

TEST_CASE("saver: saves at multiples of checkpoint.every and keeps the newest", "[train]") {
  SmallRun run({.every = 3, .keep = 2});
  Saver saver(run.saved());
  CHECK(saver.last_saved() == -1);
  CHECK(run.due_steps(saver, 10) == Steps{3, 6, 9});
  CHECK(run.steps_on_disk() == Steps{6, 9});
  CHECK(saver.last_saved() == 9);
  saver.save();  // step 10, which is not due, as a run saves when a signal ends it
  saver.save();  // it is saved already
  saver.finish();
  CHECK(run.steps_on_disk() == Steps{9, 10});
  CHECK(run.events("checkpoint").size() == 4);
}

TEST_CASE("saver: counts checkpoint.every_minutes from the end of the save before", "[train]") {
  SmallRun run({.every_minutes = 1});
  Saver saver(run.saved());
  run.now_s = 59;
  CHECK(run.due_steps(saver, 2).empty());
  run.now_s = 60, run.save_s = 30;
  CHECK(run.due_steps(saver, 3) == Steps{3});
  run.now_s = 149;
  CHECK(run.due_steps(saver, 4).empty());
  run.now_s = 500;
  CHECK(run.due_steps(saver, 6) == Steps{5});
}

TEST_CASE("saver: by minutes alone, a run takes memory for background saves when half of the time has passed",
          "[train]") {
  SmallRun run({.every_minutes = 30, .async = true});
  Saver saver(run.saved());
  run.now_s = 14 * 60;
  CHECK(run.due_steps(saver, 1).empty());
  CHECK(saver.save_needs_record());  // a save now, as a signal causes it, would block training
  run.now_s = 16 * 60;
  CHECK(run.due_steps(saver, 2).empty());
  CHECK_FALSE(saver.save_needs_record());
  run.now_s = 31 * 60;
  CHECK(run.due_steps(saver, 3) == Steps{3});
  saver.finish();
  CHECK(run.steps_on_disk() == Steps{3});
  // A run of a few minutes never takes it.
  SmallRun brief({.every_minutes = 30, .async = true});
  Saver at_end(brief.saved());
  CHECK(brief.due_steps(at_end, 2).empty());
  at_end.finish();
  CHECK(at_end.save_needs_record());
  CHECK(brief.steps_on_disk() == Steps{2});
}

#ifndef __SANITIZE_ADDRESS__  // it reserves more than any limit
TEST_CASE("saver: without memory for the copies, a run that wants background saves blocks and saves", "[train]") {
  SmallRun run({.every = 1, .async = true}, {.layers = 1, .heads = 1, .width = 64, .vocab = 100'000, .max_seq = 4});
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  rlimit least = before;
  least.rlim_cur = pages * 4096 + (64 << 20);  // a copy has 77 MB
  REQUIRE(setrlimit(RLIMIT_AS, &least) == 0);
  {
    Saver saver(run.saved());
    run.step(saver);
    CHECK(saver.is_due(1));
    CHECK(saver.save_needs_record());
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    saver.save();
    saver.finish();
  }
  CHECK(run.steps_on_disk() == Steps{1});
  CHECK_THAT(run.folder.read("log.txt"), Catch::Matchers::Contains("no memory for two copies of the state, 0.1"));
}
#endif

TEST_CASE("saver: retries a failed save 1, 2, 4, ... steps later, then waits for the cadence", "[train]") {
  SmallRun run({.every = 64});
  const std::string file = run.folder.write("file", "");
  run.policy.dir = file + "/checkpoints";  // nothing can be written there
  Saver saver(run.saved());
  while (run.engine.steps_done() < 64) run.step(saver);
  REQUIRE(saver.is_due(64));
  saver.save();
  CHECK(saver.last_saved() == -1);
  CHECK(run.due_steps(saver, 90) == Steps{65, 67, 71, 79});
  const auto failures = run.events("checkpoint_failed");
  REQUIRE(failures.size() == 5);
  for (int i = 0; i < 5; ++i) CHECK(failures[static_cast<std::size_t>(i)]["attempt"] == i + 1);
  CHECK(failures[4]["retry_step"] == 95);
  std::filesystem::remove(file);  // there is space again
  CHECK(run.due_steps(saver, 99) == Steps{95});
  CHECK(run.steps_on_disk() == Steps{95});
  CHECK(run.events("checkpoint").size() == 1);
}

TEST_CASE("saver: the last retry is at the last step", "[train]") {
  SmallRun run({.every = 3});
  run.policy.dir = run.folder.write("file", "") + "/checkpoints";
  SavedRun saved = run.saved();
  saved.steps = 5;
  Saver saver(saved);
  CHECK(run.due_steps(saver, 5) == Steps{3, 4, 5});
  CHECK(run.events("checkpoint_failed").back()["retry_step"] == 5);
}

TEST_CASE("saver: a background save waits for the row of its step", "[train]") {
  SmallRun run({.every = 2, .async = true});
  Saver saver(run.saved());
  run.step(saver);
  run.unrecorded_step();
  saver.save();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(run.steps_on_disk().empty());
  saver.recorded(2);
  saver.finish();
  CHECK(run.steps_on_disk() == Steps{2});
  // A step whose numbers are not finite has no row that counts: its state is dropped.
  run.unrecorded_step();
  saver.start_copies(true);
  saver.save();
  saver.give_up();
  CHECK(run.steps_on_disk() == Steps{2});
  CHECK(saver.last_saved() == 2);
}

TEST_CASE("saver: a checkpoint has the program's state of its step", "[train]") {
  for (const bool async : {false, true}) {
    SmallRun run({.every = 1, .async = async});
    Saver saver(run.saved());
    const auto saved_with_state = [&](Size step, bool is_ahead) {
      run.unrecorded_step();
      if (is_ahead) {  // as on a GPU: the copy begins before the program sees the step
        saver.start_copies(true);
        saver.save();
      }
      run.program["step"] = std::to_string(step);
      saver.recorded(step);
      if (!is_ahead) {
        saver.start_copies(true);
        saver.save();
      }
    };
    saved_with_state(1, async);
    saved_with_state(2, async);
    saved_with_state(3, false);
    run.program["step"] = "later";
    saver.finish();
    CHECK(run.steps_on_disk() == Steps{1, 2, 3});
    for (const checkpoint::Listing& entry : checkpoint::list(run.policy.dir, false)) {
      CHECK(checkpoint::read_state(entry.path).program == State{{"step", std::to_string(entry.step)}});
    }
  }
}

TEST_CASE("saver: a run that continues from memory saves what is due and not on disk", "[train]") {
  SmallRun run({.every = 2});
  CHECK_FALSE(Saver(run.saved()).has_missed());
  CHECK_FALSE(Saver(run.saved(-1, 1)).has_missed());
  CHECK(Saver(run.saved(-1, 2)).has_missed());
  CHECK(Saver(run.saved(2, 5)).has_missed());
  CHECK_FALSE(Saver(run.saved(4, 5)).has_missed());
}
