// Builds and writes the JSON of a result.
#include "bench/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "io/file.h"
#include "io/print_note.h"
#include "libtrain/error.h"
#include "record/short_text.h"
#include "run/machine.h"

namespace lt::bench {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Json spread(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {{"min", *least}, {"median", median(values)}, {"max", *most}};
}

Size block_size(Size iterations, Size block) {
  return iterations * (block + 1) / kBlocks - iterations * block / kBlocks;
}

std::vector<std::vector<double>> cut_into_blocks(const std::vector<double>& ms) {
  std::vector<std::vector<double>> blocks;
  auto begin = ms.begin();
  for (Size b = 0; b < kBlocks; ++b) {
    const auto end = begin + block_size(static_cast<Size>(ms.size()), b);
    blocks.emplace_back(begin, end);
    begin = end;
  }
  return blocks;
}

Json times(const std::vector<std::vector<double>>& blocks) {
  std::vector<double> all, medians;
  for (const std::vector<double>& block : blocks) {
    if (block.empty()) continue;
    all.insert(all.end(), block.begin(), block.end());
    medians.push_back(median(block));
  }
  Json result = spread(all);
  result["blocks"] = medians;
  return result;
}

void require_one_rank(std::string_view benchmark, const World& world) {
  if (world.size() == 1) return;
  throw UsageError("bench", fmt::format("{}: expected one rank, got {}", benchmark, world.size()),
                   "run it without mpirun");
}

Json new_result(std::string_view benchmark, const World& world, const Options& options, Device device) {
  return {{"schema", kSchema},
          {"benchmark", benchmark},
          {"command", options.command},
          {"machine", run::machine(world)},
          {"warmup", options.warmup},
          {"iterations", options.iterations},
          {"device", device.type == DeviceType::cuda ? "cuda" : "cpu"}};
}

namespace {

std::string text_of(Json result, Json rows) {
  result["rows"] = std::move(rows);
  return result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";  // a path may be any bytes
}

}  // namespace

void save_result(Json result, Json rows, const std::string& out) {
  if (!out.empty()) io::write_whole_file("bench", out, text_of(std::move(result), std::move(rows)));
}

void write_result(Json result, Json rows, const std::string& out) {
  if (out.empty()) {
    std::fputs(text_of(std::move(result), std::move(rows)).c_str(), stdout);
    std::fflush(stdout);
  } else {
    const auto count = static_cast<Size>(rows.size());
    save_result(std::move(result), std::move(rows), out);
    io::print_done("{}: {}\n", out, recorder::counted(count, "row"));
  }
}

}  // namespace lt::bench
