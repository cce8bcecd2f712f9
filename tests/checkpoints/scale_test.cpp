// Run by hand: the cost of checkpoints. checkpoints_test "[scale]" measures the manifest of a large model on many
// ranks. checkpoints_test "[speed]" measures save, load and verify in GB/s in the folder LT_SPEED_FOLDER, and dd with
// fsync for comparison.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "checkpoints/fixture.h"
#include "checkpoints/format/layout.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/verify.h"
#include "libtrain/nn/models.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;

namespace {

template <class Body>
double seconds(Body&& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// User and system time of this process so far.
double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

template <class Body>
double processor_seconds(Body&& body) {
  const double begin = processor_seconds();
  body();
  return processor_seconds() - begin;
}

// Memory in MB: "VmRSS" is the current use, "VmHWM" the peak since the last reset_peak().
double memory_mb(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::atof(line.c_str() + field.size() + 1) / 1000;
  }
  return 0;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

// A manifest of masters, m and v whose ranks share each unit evenly.
Manifest manifest_of(const nn::Transformer& model, int ranks) {
  Manifest manifest{state_at(1000), ranks, {}, {}};
  for (const nn::NamedParameter& entry : model.all_parameters()) {
    manifest.parameters.push_back({entry.name, entry.parameter->shape()});
  }
  for (int rank = 0; rank < ranks; ++rank) {
    FileEntry file{shard_name(rank), 2048, 0x12345678, 0x9abcdef0, {}};
    for (const nn::UnitInfo& unit : model.units()) {
      const auto parameters = unit.module->parameters(unit.name);
      Size total = 0, first = 0;
      for (const auto& entry : parameters) total += entry.parameter->shape().elements();
      const Size part = (total + ranks - 1) / ranks, begin = rank * part, end = std::min(total, begin + part);
      for (const auto& entry : parameters) {
        const Size elements = entry.parameter->shape().elements();
        const Size from = std::max(begin - first, Size{0}), to = std::min(end - first, elements);
        first += elements;
        if (from >= to) continue;
        for (const char* const kind : {kMaster, "m", "v"}) {
          DatasetEntry dataset{entry.name, kind, from, to, "", file.bytes, {}};
          dataset.path = "/" + to_string(dataset);
          dataset.blocks.assign(static_cast<std::size_t>((dataset.bytes() + kBlockBytes - 1) / kBlockBytes),
                                0xdeadbeef);
          file.bytes += dataset.bytes();
          file.datasets.push_back(std::move(dataset));
        }
      }
    }
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

}  // namespace

TEST_CASE("scale: the manifest of llama-8b", "[.][scale]") {
  const auto model = nn::make_transformer(nn::preset("llama-8b"));
  for (const int ranks : {64, 1024, 4096}) {
    std::string text;
    double written = 0;
    std::size_t datasets = 0;
    {
      const Manifest manifest = manifest_of(*model, ranks);
      for (const FileEntry& file : manifest.files) datasets += file.datasets.size();
      written = processor_seconds([&] { text = manifest_text(manifest); });
    }
    reset_peak();
    const double before = memory_mb("VmRSS");
    Manifest read;
    const double parsed = processor_seconds([&] { read = parse_manifest(text); });
    std::printf(
        "llama-8b, %d ranks: %zu datasets, %.1f MB; %.2f s of a core to write, %.2f s to read, %.0f MB of memory "
        "beside it\n",
        ranks, datasets, static_cast<double>(text.size()) / 1e6, written, parsed, memory_mb("VmHWM") - before);
    CHECK(read.files.size() == static_cast<std::size_t>(ranks));
  }
}

TEST_CASE("speed: save, load and verify", "[.][speed]") {
  const TempFolder temp;
  const char* given = std::getenv("LT_SPEED_FOLDER");
  const fs::path folder = given == nullptr ? temp.path() : fs::path(given) / "lt-speed";
  constexpr Size kElements = Size{32} << 20;  // of each kind; 403 MB in total
  constexpr double kBytes = 3.0 * 4 * static_cast<double>(kElements);
  ShardMap shards{{{"w", {kElements}}}, {}, {}, {kMaster, "m", "v"}};
  for (const char* const kind : {kMaster, "m", "v"}) {
    std::vector<float> values(static_cast<std::size_t>(kElements));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 2654435761u % 1000003);
    const Tensor tensor = Tensor::from(values, {kElements});
    shards.owned.push_back({"w", kind, 0, kElements, tensor});
    shards.needed.push_back({"w", kind, 0, kElements, tensor});
  }
  fs::create_directories(folder);
  const std::string dd = "dd if=/dev/zero of=" + (folder / "dd").string() + " bs=4M count=96 conv=fsync 2>/dev/null";
  const auto say = [](const char* what, double bytes, double wall, double processor) {
    std::printf("%-8s %5.2f GB/s, %5.2f GB/s of processor time\n", what, bytes / wall / 1e9, bytes / processor / 1e9);
  };
  for (Size round = 1; round <= 3; ++round) {
    const double written = seconds([&] { CHECK(std::system(dd.c_str()) == 0); });
    std::printf("%-8s %5.2f GB/s\n", "dd", 96.0 * 4194304 / written / 1e9);
    fs::remove(folder / "dd");
    std::string step;
    const auto timed = [&](const char* what, auto&& body) {
      const double processor = processor_seconds(), wall = seconds(body);
      say(what, kBytes, wall, processor_seconds() - processor);
    };
    timed("save", [&] { step = save_alone(folder, round, shards, 2); });
    timed("load", [&] { load(step, shards); });
    timed("verify", [&] { CHECK(problems_of(step, true).empty()); });
  }
  fs::remove_all(folder);
}
