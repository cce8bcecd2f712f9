// Evaluates and samples, and finds missing results.
#include "run/due_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "checkpoints/format/layout.h"
#include "comm/value_exchange.h"
#include "device/fault.h"
#include "io/file.h"
#include "io/readable.h"
#include "libtrain/device/phase.h"
#include "libtrain/error.h"
#include "libtrain/generate/generate.h"
#include "libtrain/nn/models.h"
#include "libtrain/profile/timeline.h"
#include "run/evaluation.h"

namespace lt::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSamples = "samples";  // folder of a run

std::string name_of_sample(Size step) { return checkpoint::step_name(step) + ".txt"; }

}  // namespace

void DueWork::evaluate() {
  const PhaseScope phase(Phase::evaluation);
  const TimelineScope untraced(nullptr);
  device::fault_point("evaluate");
  const BatchShape shape = run_.engine->batch_shape();
  const auto losses_of = [&](const Batch& batch) { return run_.engine->evaluate(batch); };
  const EvaluationBatches& own = run_.resolved.evaluation.own;
  const Evaluation result =
      own.batch ? run::evaluate(own, shape.micro_batch, shape.rank, shape.ranks, losses_of)
                : run::evaluate(run_.data.validation, samples_per_evaluation(), shape.rank, shape.ranks, losses_of);
  const bool has_loss = result.loss.counted() > 0;
  const double loss = result.loss.value();
  if (has_loss) run_.eval_loss = loss;
  const auto json = [](const MeanLoss& mean) {
    return mean.counted() > 0 ? nlohmann::ordered_json(mean.value()) : nlohmann::ordered_json(nullptr);
  };
  const auto text = [](const MeanLoss& mean) {
    return mean.counted() > 0 ? fmt::format("{:.4f}", mean.value()) : std::string("none, no target counts");
  };
  nlohmann::ordered_json event = {{"event", "eval"},
                                  {"step", run_.steps_done()},
                                  {"loss", json(result.loss)},
                                  {"batches", result.batches},
                                  {"tokens", static_cast<Size>(result.loss.counted())}};
  std::string by_set;
  for (const SetLoss& set : result.sets) {
    if (result.sets.size() == 1) break;
    event["sets"].push_back(
        {{"files", set.name}, {"loss", json(set.loss)}, {"tokens", static_cast<Size>(set.loss.counted())}});
    by_set += fmt::format(" | {} {}", set.name, text(set.loss));
  }
  run_.log.event(event);
  if (has_loss) run_.log.evaluation(run_.steps_done(), loss);
  run_.log.say(fmt::format("eval {:>6} | loss {}{}", run_.steps_done(), text(result.loss), by_set));
}

Size DueWork::samples_per_evaluation() const {
  const EvaluationSpec& evaluation = run_.resolved.evaluation;
  const Size seq = run_.resolved.step.seq;
  return evaluation.tokens > 0 ? (evaluation.tokens + seq - 1) / seq : std::numeric_limits<Size>::max();
}

void DueWork::sample() {
  const PhaseScope phase(Phase::sampling);
  const TimelineScope untraced(nullptr);
  collectively(run_.control, [&] {
    run_.engine->with_parameters([&] {
      if (run_.world.rank() != 0) return;
      Tokenizer::Ids begin = run_.data.tokenizer->encode("\n");
      if (begin.size() > 1) begin.erase(begin.begin(), begin.end() - 1);  // the plan is for one token
      Tokenizer::Ids tokens;
      try {
        tokens = lt::sample(dynamic_cast<nn::Transformer&>(run_.model), begin, run_.resolved.step.seed);
      } catch (const NonFiniteError& error) {  // the loss tells whether the run ends
        return run_.log.say(fmt::format("warning: no sample, {}", error.what()));
      }
      run_.log.keep(kSamples, [&] {
        io::write_whole_file("record", run_.log.in_folder(kSamples, name_of_sample(run_.steps_done())),
                             run_.data.tokenizer->decode(tokens) + "\n");
      });
    });
  });
}

bool DueWork::has_sample() const {
  std::error_code unreadable;
  return fs::exists(fs::path(run_.resolved.run.dir) / kSamples / name_of_sample(run_.steps_done()), unreadable);
}

void DueWork::remove_later_samples() const {
  if (run_.world.rank() != 0) return;
  for (const fs::path& file : io::readable_entries(fs::path(run_.resolved.run.dir) / kSamples)) {
    const std::optional<Size> step = checkpoint::parse_step(file.stem().string());
    std::error_code failed;  // the report leaves out samples of steps that the run has not done
    if (step && *step > run_.steps_done() && file.extension() == ".txt") fs::remove(file, failed);
  }
}

void DueWork::catch_up() {
  const Size n = run_.steps_done();
  if (n == 0 || run_.begins_from_other_run()) return;
  const auto is_missing = [&](const auto& has_result) {  // rank 0 decides
    return comm::broadcast_value(run_.control, run_.control.rank() == 0 && !has_result());
  };
  if (evaluates_after(n) && is_missing([&] { return run_.eval_loss.has_value(); })) evaluate();
  if (samples_after(n) && is_missing([&] { return has_sample(); })) sample();
}

}  // namespace lt::run
