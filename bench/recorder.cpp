// The recorder's cost, by steps of an open run.
#include "recorder.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "libtrain/error.h"
#include "libtrain/part_clock.h"
#include "libtrain/prepare.h"
#include "libtrain/timeline.h"
#include "record/sink.h"
#include "train/run.h"
#include "train/step_record.h"
#include "training.h"

namespace lt::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

enum class Mode { off, metrics, sinks, trace };
constexpr std::array<std::string_view, 4> kModes = {"off", "metrics", "sinks", "trace"};

// A folder that rank 0 makes, with token files in it, and removes.
class Folder {
 public:
  Folder(const World& world, Size tokens) : owner_(world.rank() == 0) {
    std::string made;
    collectively(world.group(), [&] {
      if (!owner_) return;
      made = (fs::temp_directory_path() / "libtrain-bench-XXXXXX").string();
      if (::mkdtemp(made.data()) == nullptr) throw DataError("bench", made + ": cannot create a folder");
      std::ofstream(made + "/text.txt") << std::string(static_cast<std::size_t>(tokens), 'a');
      prepare({.inputs = {made + "/text.txt"}, .out = made + "/data", .val_fraction = 0});
    });
    path_ = world.group().broadcast_bytes(made, 0);
  }
  ~Folder() {
    std::error_code ignored;
    if (owner_) fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  bool owner_;
  std::string path_;
};

class Recorded {
 public:
  Recorded(const Config& config, const World& world) : run_(config, world) {
    sinks_.push_back(make_csv_sink(config.run.dir + "/metrics.csv"));
    sinks_.push_back(make_tensorboard_sink(config.run.dir + "/tb", 1));
  }

  // Milliseconds of one step.
  double step(Mode mode) {
    run_.control.barrier();
    const Clock::time_point begin = Clock::now();
    const TimelineScope timeline(mode == Mode::trace ? make_cpu_timeline() : nullptr);
    const PartClockScope clock(mode == Mode::off ? nullptr : &clock_);
    const StepResult result = run_.engine->step(next_batch());
    const double engine_ms = ms_since(begin);
    if (mode == Mode::off) {
      static_cast<void>(result.loss());
      run_.control.barrier();  // ranks wait for each other here or in the next step; that is no cost of recording
      return ms_since(begin);
    }
    const StepRecord record = make_record(run_, result, 0, engine_ms, clock_.take());
    run_.log.step(record);
    if (mode == Mode::sinks && run_.world.rank() == 0) {
      for (const auto& sink : sinks_) sink->step(record);
    }
    run_.control.barrier();
    return ms_since(begin);
  }

 private:
  Batch next_batch() {
    const PartScope part(Part::data);
    const MemoryScope owner(MemoryOwner::data);
    run_.data->seek(0);
    return run_.data->next();
  }
  static double ms_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }

  Run run_;
  PartClock clock_;
  std::vector<std::unique_ptr<Sink>> sinks_;
};

}  // namespace

void bench_recorder(const Config& given, const World& world, const Options& options) {
  Config config = given;
  const Config sizes = resolve(given);
  const Folder folder(world, 1 + sizes.train.seq * sizes.train.micro_batch * sizes.train.accum * world.size());
  config.data.train = {folder.path() + "/data/train.bin"};
  config.run.dir = folder.path() + "/run";
  config.train.steps = 1;
  Recorded recorded(resolve(config), world);
  for (Size i = 0; i < options.warmup; ++i) {
    for (std::size_t m = 0; m < kModes.size(); ++m) recorded.step(static_cast<Mode>(m));
  }
  std::array<std::vector<double>, kModes.size()> ms, cost;
  for (Size i = 0; i < options.iterations; ++i) {
    std::array<double, kModes.size()> round{};
    // Each mode stands at each place of a round as often.
    for (std::size_t place = 0; place < kModes.size(); ++place) {
      const std::size_t m = (place + static_cast<std::size_t>(i)) % kModes.size();
      round[m] = recorded.step(static_cast<Mode>(m));
    }
    for (std::size_t m = 0; m < kModes.size(); ++m) ms[m].push_back(round[m]), cost[m].push_back(round[m] - round[0]);
  }
  if (world.rank() != 0) return;

  Json rows = Json::array();
  fmt::print(stderr, "{:<8} {:>10} {:>10} {:>10} {:>10} {:>9}\n", "recorder", "median ms", "min ms", "max ms",
             "cost ms", "cost");
  for (std::size_t m = 0; m < kModes.size(); ++m) {
    const double cost_ms = median(cost[m]), share = cost_ms / median(ms[0]);
    rows.push_back({{"name", nn::model_name(model_spec(sizes))},
                    {"implementation", kModes[m]},
                    {"shape", step_shape(sizes)},
                    {"dtype", sizes.train.dtype},
                    {"ranks", world.size()},
                    {"strategy", sizes.parallel.strategy},
                    {"recompute", sizes.parallel.recompute},
                    {"ms", times(cut_into_blocks(ms[m]))},
                    {"cost_ms", cost_ms},
                    {"cost_share", share}});
    const Json spread_ms = spread(ms[m]);
    fmt::print(stderr, "{:<8} {:>10.3f} {:>10.3f} {:>10.3f} {:>10.3f} {:>7.2f} %\n", kModes[m],
               spread_ms["median"].get<double>(), spread_ms["min"].get<double>(), spread_ms["max"].get<double>(),
               cost_ms, 100 * share);
  }
  write_result(new_result("recorder", world, options), std::move(rows), options.out);
}

}  // namespace lt::bench
