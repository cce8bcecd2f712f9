// Implements `ltrain bench tune`.
#include "bench/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/step_identity.h"
#include "bench/table.h"
#include "bench/training.h"
#include "config/model_table.h"
#include "config/names.h"
#include "io/print_note.h"
#include "kernels/matmul_search.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "run/rank_device.h"

namespace lt::bench {
namespace {

using kernels::Algorithms;

constexpr Column kMatmulColumns[] = {{"matmul", -64}, {"present ms", 10}, {"found ms", 10}};
constexpr int kRounds = 3;

void require_searchable(const Resolved& resolved, const World& world) {
  require_one_rank("tune", world);
  if (resolved.step.device.type != DeviceType::cuda) {
    throw UsageError("bench", fmt::format("tune: train.device: expected cuda, got {}", to_string(resolved.step.device)),
                     "only matmuls on GPUs have a choice of algorithms");
  }
  if (resolved.parallel.deterministic != Determinism::off) {
    throw UsageError(
        "bench", "tune: train.deterministic: expected false, got " + config::name_of(resolved.parallel.deterministic),
        "deterministic matmuls take the first algorithm");
  }
}

// Prints and returns the matmuls that were searched.
Json search(const Resolved& resolved, const World& world, EngineOptions step, const ShowProgress& progress) {
  step.cuda_graph = false;  // a captured matmul runs only once
  Training training(resolved, world.group(), step);
  training.time_steps(2);  // chooses as runs do
  Json matmuls = Json::array();
  kernels::search_matmuls(
      step.device, [&] { training.time_steps(1); },
      [&](const kernels::SearchedMatmul& matmul) {
        progress.hide();
        if (matmuls.empty()) print_header(kMatmulColumns);
        Json& row = matmuls.emplace_back(
            Json{{"name", matmul.name}, {"present_ms", matmul.present_ms}, {"found_ms", matmul.found_ms}});
        print_cells(kMatmulColumns, {matmul.name, fixed(row["present_ms"], 4), fixed(row["found_ms"], 4)});
        progress.matmuls(static_cast<Size>(matmuls.size()), matmul.in_all);
      });
  progress.hide();
  return matmuls;
}

// The times of steps with one of both kinds of algorithms.
struct Timed {
  Algorithms which;
  const char* name;
  std::vector<std::vector<double>> rounds = {};

  std::vector<double> medians() const {
    std::vector<double> result;
    for (const auto& round : rounds) result.push_back(median(round));
    return result;
  }
};

bool is_shorter(const Timed& a, const Timed& b) {
  return std::ranges::max(a.medians()) < std::ranges::min(b.medians());
}

// What became of the search, for people.
std::string outcome(bool is_faster, const std::string& kept_in) {
  if (!is_faster) return "steps are not shorter with what was found, so runs take the present algorithms";
  if (kept_in.empty()) return "not all of what was found is kept, because the file for it could not be written";
  return "later runs take what was found: " + kept_in;
}

}  // namespace

void bench_tune(const Config& given, const World& world, const Options& options, const ShowProgress& progress) {
  const Resolved resolved = resolve(given, world.size());
  require_searchable(resolved, world);
  const Json identity = step_identity(resolved, world.size(), config::name_of(resolved.parallel.strategy));
  const EngineOptions step = run::step_options_of_rank(resolved, world);
  Json result = new_result("tune", world, options, step.device);
  result.update(Json{{"model", config::model_name(resolved)},
                     {"dtype", config::name_of(resolved.precision)},
                     {"matmuls", search(resolved, world, step, progress)},
                     {"kept_in", nullptr}});
  save_result(result, Json::array(), options.out);

  Timed present{Algorithms::present, "present"}, found{Algorithms::found, "found"};
  const Size of_round = options.warmup + options.iterations, steps = 2 * kRounds * of_round;
  Size done = 0;
  progress.steps(done, steps);
  for (int round = 0; round < kRounds; ++round) {
    for (Timed* const timed : {&present, &found}) {
      kernels::use_matmuls(step.device, timed->which);
      Training training(resolved, world.group(), step);
      training.step_ms(options.warmup);
      timed->rounds.push_back(training.step_ms(options.iterations));
      progress.steps(done += of_round, steps);
    }
  }
  progress.hide();
  Json rows = Json::array();
  for (const Timed* const timed : {&present, &found}) {
    Json& row = rows.emplace_back(identity);
    row.update(
        {{"implementation", timed->name}, {"iterations", kRounds * options.iterations}, {"ms", times(timed->rounds)}});
    io::print_note("steps, {}: {:.2f} ms\n", timed->name, fmt::join(timed->medians(), ", "));
  }
  const bool is_faster = is_shorter(found, present);
  const std::string kept_in = is_faster ? kernels::keep_found_matmuls(step.device) : "";
  io::print_note("{}\n", outcome(is_faster, kept_in));
  if (!kept_in.empty()) result["kept_in"] = kept_in;
  write_result(std::move(result), std::move(rows), options.out);
}

}  // namespace lt::bench
