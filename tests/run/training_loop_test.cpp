// The training loop: why a run ends, what it saves and records by then, and that the next start continues.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/error.h"
#include "libtrain/nn/models.h"
#include "libtrain/run/trainer.h"
#include "run/metrics_rows.h"
#include "test_main/armed_fault.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"
#include "test_main/world.h"

using namespace lt;
using lt_test::ArmedFault, lt_test::TempFolder, lt_test::rows_of;

namespace {

using Steps = std::vector<Size>;

// Tokens that follow from the position.
struct Counting : BatchSource {
  Batch next() override {
    std::vector<std::int32_t> ids;
    for (Size i = 0; i < 4; ++i) ids.push_back(static_cast<std::int32_t>((position + i) % 8));
    ++position;
    return {Tensor::from(ids, {1, 4}), Tensor::from(ids, {1, 4})};
  }
  void seek(Size samples) override { position = samples; }
  Size tokens() const override { return 0; }
  Size position = 0;
};

struct Small : nn::Gpt2 {
  Small() : nn::Gpt2({.layers = 1, .heads = 1, .width = 4, .vocab = 8, .max_seq = 4}) {}
};

TrainerOptions small_options(const std::string& folder, Size steps) {
  return {.train = {.steps = steps, .micro_batch = 1, .device = DeviceType::cpu},
          .optim = {.lr = 0.1},
          .run = {.dir = folder}};
}

struct Trained {
  ExitCode code = ExitCode::internal;
  Steps steps;                 // that the callback saw
  std::vector<double> losses;  // of these
};

Trained train_small(const TrainerOptions& options, const StepCallback& on_step = {}) {
  Small model;
  Counting batches;
  Trained trained;
  trained.code = Trainer(lt_test::world(), model, options).train(batches, [&](const TrainedStep& step) {
    trained.steps.push_back(step.step), trained.losses.push_back(step.loss);
    if (on_step) on_step(step);
  });
  return trained;
}

// The message of the error that ends a run whose loss is not finite; empty: it ends without one.
std::string non_finite_error(const TrainerOptions& options) {
  try {
    train_small(options);
  } catch (const NonFiniteError& error) {
    return error.what();
  }
  return "";
}

// Rows as words: "start", "1" for a step, "checkpoint 2" and so on.
std::vector<std::string> record_of(const std::string& run_dir) {
  std::vector<std::string> words;
  for (const nlohmann::json& row : rows_of(run_dir)) {
    const std::string step = row.contains("step") ? std::to_string(row["step"].get<Size>()) : "";
    const bool is_event = row.contains("event");
    words.push_back(!is_event                      ? step
                    : row["event"] == "checkpoint" ? "checkpoint " + step
                                                   : row["event"].get<std::string>());
  }
  return words;
}

Steps saved_in(const std::string& run_dir) {
  Steps steps;
  for (const checkpoint::Listing& entry : checkpoint::list(run_dir + "/checkpoints", true)) {
    if (entry.valid) steps.push_back(entry.step);
  }
  return steps;
}

}  // namespace

TEST_CASE("loop: steps, saves and the end stand in the record in their order", "[train]") {
  const TempFolder temp;
  TrainerOptions options = small_options(temp / "run", 5);
  options.checkpoint.every = 2;
  const Trained trained = train_small(options);
  CHECK(trained.code == ExitCode::ok);
  CHECK(trained.steps == Steps{1, 2, 3, 4, 5});
  CHECK(record_of(temp / "run") == std::vector<std::string>{"start", "1", "2", "checkpoint 2", "3", "4", "checkpoint 4",
                                                            "5", "checkpoint 5", "end"});
  CHECK(saved_in(temp / "run") == Steps{2, 4, 5});
  CHECK(train_small(options).steps.empty());  // it is complete
}

TEST_CASE("loop: an interrupted run continues with the losses of one that was not", "[train]") {
  const TempFolder temp;
  const Trained whole = train_small(small_options(temp / "whole", 6));
  TrainerOptions options = small_options(temp / "parts", 6);
  options.train.max_minutes = 1e-9;  // over after the first step
  Trained parts = train_small(options);
  CHECK(parts.steps == Steps{1});
  CHECK(parts.code == ExitCode::restart);
  CHECK(rows_of(temp / "parts").back()["reason"] == "max_minutes");
  CHECK(saved_in(temp / "parts") == Steps{1});
  options.train.max_minutes = 0;
  const Trained rest = train_small(options);
  CHECK(rest.steps == Steps{2, 3, 4, 5, 6});
  CHECK(rest.code == ExitCode::ok);
  parts.losses.insert(parts.losses.end(), rest.losses.begin(), rest.losses.end());
  CHECK(parts.losses == whole.losses);
}

TEST_CASE("loop: the program's state is that of the step, from disk and from memory, and continues", "[train]") {
  for (const bool in_memory : {false, true}) {
    const TempFolder temp;
    TrainerOptions options = small_options(temp / "run", 6);
    options.checkpoint.every = in_memory ? 0 : 2;
    options.checkpoint.memory_every = in_memory ? 1 : 0;
    Size continued_from = 0;
    const auto train = [&](Size stop_after) {
      Small model;
      Counting batches;
      Trainer trainer(lt_test::world(), model, options);
      trainer.state()["steps"] = "";
      std::string found;  // before the first step
      struct Stop {};
      try {
        trainer.train(batches, [&](const TrainedStep& step) {
          std::string& steps = trainer.state()["steps"];
          if (found.empty()) found = steps.empty() ? "none" : steps, continued_from = step.step - 1;
          if (step.step > stop_after) throw Stop();
          steps += std::to_string(step.step) + " ";
        });
      } catch (const Stop&) {
      }
      return found;
    };
    CHECK(train(3) == "none");
    const std::string found = train(6);
    CHECK(found == (continued_from == 3 ? "1 2 3 " : "1 2 "));
    // The copy of step 3 may still be under way when step 4 ends the run.
    CHECK((continued_from == 2 || (in_memory && continued_from == 3)));
    for (const Size step : saved_in(temp / "run")) {
      std::string expected;
      for (Size i = 1; i <= step; ++i) expected += std::to_string(i) + " ";
      const std::string folder = temp / "run/checkpoints/step-0000000" + std::to_string(step);
      CHECK(checkpoint::read_state(folder).program == State{{"steps", expected}});
    }
    CHECK(saved_in(temp / "run") == (in_memory ? Steps{6} : Steps{2, 4, 6}));
  }
}

TEST_CASE("loop: a state of the program that is too large ends the run at its step", "[train]") {
  const TempFolder temp;
  Small model;
  Counting batches;
  Trainer trainer(lt_test::world(), model, small_options(temp / "run", 3));
  const auto fill = [&](const TrainedStep& step) {
    if (step.step == 2) trainer.state()["all"] = std::string(static_cast<std::size_t>(kMaxStateBytes), 'x');
  };
  CHECK_THROWS_WITH(trainer.train(batches, fill),
                    "state: expected at most 1048576 bytes of names and values, got 1048579");
}

TEST_CASE("loop: an exception of the program's own is in the log", "[train]") {
  const TempFolder temp;
  const auto fail = [](const TrainedStep& step) {
    if (step.step == 2) throw std::runtime_error("no plot");
  };
  CHECK_THROWS_AS(train_small(small_options(temp / "run", 3), fail), std::runtime_error);
  CHECK_THAT(lt_test::read_text(temp / "run/log.txt"), Catch::Matchers::ContainsSubstring("error: [program] no plot"));
}

TEST_CASE("loop: a signal ends the run after its step, with the state saved", "[train]") {
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    const TempFolder temp;
    const TrainerOptions options = small_options(temp / "run", 9);
    const Trained stopped = train_small(options, [&](const TrainedStep& step) {
      if (step.step == 3) std::raise(signal);
    });
    CHECK(stopped.code == ExitCode::restart);
    REQUIRE_FALSE(stopped.steps.empty());
    const Size last = stopped.steps.back();
    CHECK(last >= 3);
    CHECK(last <= 4);
    CHECK(saved_in(temp / "run") == Steps{last});
    const Trained rest = train_small(options);
    REQUIRE_FALSE(rest.steps.empty());
    CHECK(rest.steps.front() == last + 1);
  }
}

TEST_CASE("loop: a signal with the last step ends nothing early", "[train]") {
  const TempFolder temp;
  const Trained trained = train_small(small_options(temp / "run", 3), [&](const TrainedStep& step) {
    if (step.step == 3) std::raise(SIGUSR1);
  });
  CHECK(trained.code == ExitCode::ok);
  CHECK(rows_of(temp / "run").back()["reason"] == "steps");
}

TEST_CASE("loop: a run that is out of time at its last step has done its steps", "[train]") {
  const TempFolder temp;
  TrainerOptions options = small_options(temp / "run", 1);
  options.train.max_minutes = 1e-9;
  CHECK(train_small(options).code == ExitCode::ok);
  CHECK(rows_of(temp / "run").back()["reason"] == "steps");
}

TEST_CASE("loop: a loss that is not finite ends the run before its state is saved, printed or not", "[train]") {
  for (const Size every : {1, 100}) {
    const TempFolder temp;
    TrainerOptions options = small_options(temp / "run", 9);
    options.optim = {.lr = 1e30, .clip = 0};
    options.checkpoint.every = 1;
    options.record.every = every;
    CHECK_THAT(non_finite_error(options), Catch::Matchers::ContainsSubstring("expected finite numbers; step "));
    const std::vector<nlohmann::json> rows = rows_of(temp / "run");
    const Size last = rows.back()["step"].get<Size>();
    CHECK(rows.back()["event"] == "skip");
    CHECK(last < 9);
    CHECK(saved_in(temp / "run").back() == last - 1);
  }
}

TEST_CASE("loop: train.skip_nonfinite steps in a row may have no update; one more ends the run", "[train]") {
  const auto options_of = [](const std::string& folder, Size allowed) {
    TrainerOptions options = small_options(folder, 8);
    options.train.skip_nonfinite = allowed;
    options.train.eval_every = 1;
    options.evaluation.count = 1;
    options.evaluation.batch = [](Size) {
      Counting batches;
      return batches.next();
    };
    options.optim.ema = 0.5;
    options.checkpoint.every = 1, options.checkpoint.keep = 20, options.checkpoint.best = true;
    return options;
  };
  const auto skips = [](const std::string& run_dir) {
    std::vector<nlohmann::json> found;
    for (const nlohmann::json& row : rows_of(run_dir)) {
      if (row.value("event", "") == "skip") found.push_back(row);
    }
    return found;
  };
  const TempFolder temp;
  const char* const faults = "forward:0:3:nan,backward:0:5:nan,forward:0:6:nan";
  std::optional<ArmedFault> fault(faults);
  CHECK_THAT(non_finite_error(options_of(temp / "none", 0)),
             Catch::Matchers::StartsWith("step 3: loss nan, ") &&
                 Catch::Matchers::EndsWith(": expected finite numbers; step 2 was saved last"));
  fault.emplace(faults);
  CHECK(train_small(options_of(temp / "none", 2)).steps == Steps{3, 4, 5, 6, 7, 8});  // a resume may change the key
  fault.emplace(faults);
  CHECK_THAT(non_finite_error(options_of(temp / "one", 1)),
             Catch::Matchers::StartsWith("step 6: loss nan, ") &&
                 Catch::Matchers::EndsWith(": expected finite numbers; the step before had no update either "
                                           "(train.skip_nonfinite=1); step 5 was saved last"));
  CHECK(skips(temp / "one").back() == nlohmann::json{{"event", "skip"},
                                                     {"step", 6},
                                                     {"reason", "non-finite loss or gradient"},
                                                     {"in_a_row", 2},
                                                     {"since_start", 3}});

  fault.emplace("forward:0:3:nan,forward:0:4:nan,forward:0:5:nan");
  CHECK_THAT(non_finite_error(options_of(temp / "three", 2)),
             Catch::Matchers::EndsWith(": expected finite numbers; the 2 steps before had no update either "
                                       "(train.skip_nonfinite=2); step 4 was saved last"));

  fault.emplace(faults);
  const Trained trained = train_small(options_of(temp / "two", 2));
  CHECK(trained.code == ExitCode::ok);
  CHECK(trained.steps == Steps{1, 2, 3, 4, 5, 6, 7, 8});
  std::vector<nlohmann::json> expected;
  for (const auto& [step, reason, in_a_row, since_start] :
       {std::tuple{3, "loss not finite", 1, 1}, {5, "gradient norm not finite", 1, 2}, {6, "loss not finite", 2, 3}}) {
    expected.push_back({{"event", "skip"},
                        {"step", step},
                        {"reason", reason},
                        {"loss_scale", 1},
                        {"in_a_row", in_a_row},
                        {"since_start", since_start}});
  }
  CHECK(skips(temp / "two") == expected);
  for (const nlohmann::json& row : rows_of(temp / "two")) {
    if (row.value("event", "") == "eval") CHECK(row["loss"].is_number());
  }
  CHECK(saved_in(temp / "two") == Steps{1, 2, 3, 4, 5, 6, 7, 8});
  const auto state_of = [&](Size step) {
    return checkpoint::read_state(temp / "two/checkpoints/step-0000000" + std::to_string(step));
  };
  CHECK(state_of(2).skipped == 0);
  CHECK(state_of(6).skipped == 3);
  CHECK(state_of(6).samples == 6);
  CHECK(state_of(6).eval_loss == state_of(4).eval_loss);
}

TEST_CASE("loop: a run that continues from a skipped step has the losses of one that did not stop", "[train]") {
  const ArmedFault fault("forward:0:3:nan");
  const TempFolder temp;
  const auto options_of = [](const std::string& folder, bool async, bool in_memory) {
    TrainerOptions options = small_options(folder, 6);
    options.train.skip_nonfinite = 1;
    options.optim.ema = 0.5;
    options.optim.schedule = Decay::constant;  // train.steps changes
    options.checkpoint.async = async;
    options.checkpoint.memory_every = in_memory ? 1 : 0;
    options.checkpoint.every = in_memory ? 0 : 3;
    return options;
  };
  Trained whole = train_small(options_of(temp / "whole", false, false));
  CHECK(std::isnan(whole.losses.at(2)));
  for (const auto& [async, in_memory] : {std::pair{false, false}, {true, false}, {false, true}}) {
    const TrainerOptions options =
        options_of(temp / ("parts" + std::to_string(2 * async + in_memory)), async, in_memory);
    TrainerOptions first = options;
    if (!in_memory) first.train.steps = 3;
    struct Stop {};
    try {
      train_small(first, [](const TrainedStep& step) {
        if (step.step == 5) throw Stop();
      });
    } catch (const Stop&) {
    }
    const Trained rest = train_small(options);
    REQUIRE_FALSE(rest.steps.empty());
    const auto from = static_cast<std::size_t>(rest.steps.front() - 1);
    // The copy in memory of step 4 may still be under way when step 5 ends the run.
    CHECK((from == 3 || (in_memory && from == 4)));
    CHECK(rest.losses ==
          std::vector<double>(whole.losses.begin() + static_cast<std::ptrdiff_t>(from), whole.losses.end()));
    const auto skipped = [](const std::string& folder) {
      return checkpoint::read_state(folder + "/checkpoints/step-00000006").skipped;
    };
    CHECK(skipped(options.run.dir) == 1);
    CHECK(skipped(temp / "whole") == 1);
  }
}
