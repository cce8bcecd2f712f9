// Implements `ltrain bench tune`.
#include "bench/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/step_identity.h"
#include "bench/table.h"
#include "bench/training.h"
#include "config/model_table.h"
#include "config/names.h"
#include "io/file.h"
#include "io/print_note.h"
#include "io/shell_word.h"
#include "kernels/matmul_algorithms.h"
#include "kernels/matmul_search.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"

namespace lt::bench {
namespace {

namespace fs = std::filesystem;

constexpr Column kMatmulColumns[] = {{"matmul", -64}, {"present ms", 10}, {"found ms", 10}};
constexpr int kRounds = 3;

void require_searchable(const Resolved& resolved, const World& world) {
  require_one_rank("tune", world);
  if (resolved.step.device.type != DeviceType::cuda) {
    throw UsageError("bench", fmt::format("tune: train.device: expected cuda, got {}", to_string(resolved.step.device)),
                     "only matmuls on GPUs have a choice of algorithms");
  }
}

// What a search found.
struct Found {
  Json matmuls = Json::array();
  std::string table;
};

// Prints the matmuls that were searched.
Found search(const Resolved& resolved, const World& world, EngineOptions step, const ShowProgress& progress) {
  step.cuda_graph = false;  // a captured matmul runs only once
  Training training(resolved, world.group(), step);
  training.time_steps(2);
  Found found;
  Json& matmuls = found.matmuls;
  found.table = kernels::search_matmuls(
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
  return found;
}

// The times of steps with one of both tables.
struct Timed {
  const char* name;
  const std::string& table;
  std::vector<std::vector<double>> rounds = {};

  std::vector<double> medians() const {
    std::vector<double> result;
    for (const auto& round : rounds) result.push_back(median(round));
    return result;
  }
};

double least_median(const Timed& timed) { return std::ranges::min(timed.medians()); }

}  // namespace

void bench_tune(const Config& given, const World& world, const Options& options, const std::string& table,
                const ShowProgress& progress) {
  Resolved resolved = resolve(given, world.size());
  require_searchable(resolved, world);
  std::error_code unknown;
  const bool exists = fs::exists(table, unknown);
  std::string& begin_with = resolved.config.train.algorithms;
  if (exists && !begin_with.empty() && !fs::equivalent(table, begin_with, unknown)) {
    throw UsageError(
        "bench", fmt::format("tune: --table: expected a new file or train.algorithms {}, got {}", begin_with, table),
        "what was found is added to the table of train.algorithms");
  }
  if (exists) begin_with = table;
  const Json identity = step_identity(resolved, world.size(), config::name_of(resolved.parallel.strategy));
  const EngineOptions step = step_options_with_algorithms(resolved, world);
  const std::string present_table = kernels::matmul_algorithms(step.device);
  const Found found = search(resolved, world, step, progress);
  Json result = new_result("tune", world, options, step.device);
  result.update(Json{{"model", config::model_name(resolved)},
                     {"dtype", config::name_of(resolved.precision)},
                     {"matmuls", found.matmuls},
                     {"table", nullptr}});
  save_result(result, Json::array(), options.out);

  Timed present{"present", present_table}, with_found{"found", found.table};
  const Size of_round = options.warmup + options.iterations, steps = 2 * kRounds * of_round;
  Size done = 0;
  progress.steps(done, steps);
  for (int round = 0; round < kRounds; ++round) {
    for (Timed* const timed : {&present, &with_found}) {
      kernels::use_matmul_algorithms(step.device, timed->table, timed->name);
      Training training(resolved, world.group(), step);
      training.step_ms(options.warmup);
      timed->rounds.push_back(training.step_ms(options.iterations));
      progress.steps(done += of_round, steps);
    }
  }
  progress.hide();
  Json rows = Json::array();
  for (const Timed* const timed : {&present, &with_found}) {
    Json& row = rows.emplace_back(identity);
    row.update(
        {{"implementation", timed->name}, {"iterations", kRounds * options.iterations}, {"ms", times(timed->rounds)}});
    io::print_note("steps, {}: {:.2f} ms\n", timed->name, fmt::join(timed->medians(), ", "));
  }
  if (least_median(with_found) <= least_median(present)) {
    io::write_whole_file("bench", table, found.table);
    result["table"] = table;
    io::print_note("--train.algorithms={} uses what was found\n", io::shell_word(table));
  } else {
    io::print_note("{} is not written: steps are longer with what was found\n", table);
  }
  write_result(std::move(result), std::move(rows), options.out);
}

}  // namespace lt::bench
