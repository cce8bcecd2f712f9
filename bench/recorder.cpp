// Measures the recorder's cost with the steps of an open run.
#include "bench/recorder.h"

#include "bench/recorded_run.h"
#include "bench/step_identity.h"
#include "bench/table.h"
#include "bench/training.h"
#include "config/names.h"
#include "libtrain/config/resolved.h"
#include "libtrain/nn/models.h"
#include "run/rank_device.h"

namespace lt::bench {
namespace {

// The counted steps of one mode.
struct MeasuredMode {
  std::vector<double> ms, cost_ms;  // per step: its time, and the excess over the "off" step of its round
  Written written;
};
using OfModes = std::array<MeasuredMode, kRecordModes.size()>;

OfModes measure(RecordedRun& run, const Options& options) {
  for (Size i = 0; i < options.warmup; ++i) {
    for (std::size_t m = 0; m < kRecordModes.size(); ++m) run.step(static_cast<RecordMode>(m));
  }
  OfModes measured;
  for (Size i = 0; i < options.iterations; ++i) {
    // Every mode takes each place in a round equally often.
    for (std::size_t place = 0; place < kRecordModes.size(); ++place) {
      const std::size_t m = (place + static_cast<std::size_t>(i)) % kRecordModes.size();
      const RecordedStep step = run.step(static_cast<RecordMode>(m));
      measured[m].ms.push_back(step.ms);
      measured[m].written += step.written;
    }
    for (MeasuredMode& mode : measured) mode.cost_ms.push_back(mode.ms.back() - measured[0].ms.back());
  }
  return measured;
}

// `row` has the identity.
Json row_of(std::string_view mode, const MeasuredMode& measured, double off_ms, Json row) {
  const double cost_ms = median(measured.cost_ms);
  row.update({{"implementation", mode},
              {"ms", times(cut_into_blocks(measured.ms))},
              {"cost_ms", cost_ms},
              {"cost_share", cost_ms / off_ms},
              {"rows_written", measured.written.rows},
              {"bytes_written", measured.written.bytes},
              {"spans", measured.written.spans}});
  return row;
}

constexpr Column kRecorderColumns[] = {{"recorder", -8}, {"median ms", 10}, {"min ms", 10},
                                       {"max ms", 10},   {"cost ms", 10},   {"cost", 9},
                                       {"rows", 6},      {"bytes", 9},      {"spans", 8}};

void print_recorder_row(const Json& row) {
  const Json& ms = row["ms"];
  print_cells(kRecorderColumns, {row["implementation"].get<std::string>(), fixed(ms["median"], 3), fixed(ms["min"], 3),
                                 fixed(ms["max"], 3), fixed(row["cost_ms"], 3), fixed(row["cost_share"], 2, 100) + " %",
                                 row["rows_written"].dump(), row["bytes_written"].dump(), row["spans"].dump()});
}

}  // namespace

void bench_recorder(const Config& given, const World& world, const Options& options) {
  const Resolved resolved = resolve(given, world.size());
  const Json identity = step_identity(resolved, world.size(), config::name_of(resolved.parallel.strategy));
  const Size tokens = 1 + resolved.step.seq * resolved.step.micro_batch * resolved.step.accum * world.size();
  const RunFolder folder(world, tokens);
  RecordedRun run(resolved.config, world, folder);
  const OfModes measured = measure(run, options);
  if (world.rank() != 0) return;
  print_header(kRecorderColumns);
  Json rows = Json::array();
  const double off_ms = median(measured[0].ms);
  for (std::size_t m = 0; m < kRecordModes.size(); ++m) {
    print_recorder_row(rows.emplace_back(row_of(kRecordModes[m], measured[m], off_ms, identity)));
  }
  Json result = new_result("recorder", world, options, run::step_options_of_rank(resolved, world).device);
  result["files"] = run.files();
  write_result(std::move(result), std::move(rows), options.out);
}

}  // namespace lt::bench
