// The kernel benchmark: peaks, cases, rows.
#include "kernels.h"

#include <fmt/format.h>

#include <cstdio>

#include "floor.h"
#include "kernel_case.h"
#include "libtrain/error.h"
#include "libtrain/run_options.h"
#include "timing.h"

namespace lt::bench {
namespace {

constexpr double kCaseMs = 3000;  // of a slow case: fewer calls

struct Peaks {
  Floor floor;
  double bf16_products = 0;  // 0: was not needed

  double flops_of(const KernelCase& c) const {
    return c.work == Work::product && c.dtype == DType::bf16 ? bf16_products : floor.multiply_add_flops;
  }
};

std::string label(const KernelCase& c) {
  return fmt::format("{} {} {} {}", c.name, c.implementation, c.shape, dtype_name(c.dtype));
}

KernelCases chosen_cases(const Config& config, const std::string& filter) {
  const StepOptions step = step_options(config);
  const KernelSizes sizes{step.device, model_spec(config), step.micro_batch, step.seq};
  KernelCases all, chosen;
  add_gemm_cases(all, sizes);
  add_attention_cases(all, sizes);
  add_row_cases(all, sizes);
  add_token_cases(all, sizes);
  add_flat_cases(all, sizes);
  for (KernelCase& c : all) {
    if (label(c).find(filter) != std::string::npos) chosen.push_back(std::move(c));
  }
  if (chosen.empty()) {
    throw UsageError("bench", fmt::format("--filter: expected a part of a row's name, got \"{}\"", filter),
                     fmt::format("a row's name: \"{}\"", label(all.front())));
  }
  return chosen;
}

Peaks measure_peaks(const KernelCases& cases) {
  Peaks peaks{measure_floor()};
  for (const KernelCase& c : cases) {
    if (c.work == Work::product && c.dtype == DType::bf16) {
      peaks.bf16_products = measure_bf16_products();
      break;
    }
  }
  return peaks;
}

Json to_json(const Peaks& peaks) {
  Json memory = Json::array();
  for (const MemoryRate& rate : peaks.floor.memory) {
    memory.push_back({{"bytes", rate.bytes},
                      {"read_gb_per_s", rate.reads_per_s * 1e-9},
                      {"update_gb_per_s", rate.updates_per_s * 1e-9}});
  }
  return {{"threads", peaks.floor.threads},
          {"multiply_add_gflops", peaks.floor.multiply_add_flops * 1e-9},
          {"bf16_product_gflops", peaks.bf16_products > 0 ? Json(peaks.bf16_products * 1e-9) : Json()},
          {"memory", memory}};
}

void require_agreement(const KernelCase& c, double max_error) {
  if (max_error <= c.tolerance) return;
  throw InternalError("bench", fmt::format("{}: expected the reference's numbers within {:g}, got an error of {:g}",
                                           label(c), c.tolerance, max_error));
}

Json measure(const KernelCase& c, const Peaks& peaks, const Options& options) {
  const PreparedKernel kernel = c.prepare();
  if (kernel.max_error >= 0) require_agreement(c, kernel.max_error);
  const auto ms = time_calls(options.warmup, options.iterations, kCaseMs, kernel.launch);
  const double middle = median(ms), flops = static_cast<double>(c.flops), bytes = static_cast<double>(c.bytes);
  const Size footprint = c.footprint > 0 ? c.footprint : c.bytes;
  const double compute_ms = flops / peaks.flops_of(c) * 1e3;
  const double memory_ms = bytes / peaks.floor.memory_rate(footprint) * 1e3;
  const double limit_ms = std::max(compute_ms, memory_ms);
  Json row = {{"name", c.name}};
  if (!c.implementation.empty()) row["implementation"] = c.implementation;
  row.update(Json{{"shape", c.shape},
                  {"dtype", dtype_name(c.dtype)},
                  {"flops", c.flops},
                  {"bytes", c.bytes},
                  {"footprint_bytes", footprint},
                  {"iterations", ms.size()},
                  {"ms", spread(ms)},
                  {"gflops", flops / middle * 1e-6},
                  {"gb_per_s", bytes / middle * 1e-6},
                  {"limit_ms", limit_ms},
                  {"limited_by", compute_ms > memory_ms ? "flops" : "memory"},
                  {"roofline_share", limit_ms / middle}});
  if (kernel.max_error >= 0) row["max_error"] = kernel.max_error, row["tolerance"] = c.tolerance;
  return row;
}

constexpr const char* kColumns = "{:<40} {:<34} {:<5} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}\n";

void print_row(const KernelCase& c, const Json& row) {
  const auto number = [&](const Json& value, int digits) {
    return fmt::format("{:.{}f}", value.get<double>(), digits);
  };
  const std::string name = c.implementation.empty() ? c.name : c.name + " " + c.implementation;
  fmt::print(stderr, fmt::runtime(kColumns), name, c.shape, dtype_name(c.dtype), number(row["ms"]["median"], 4),
             number(row["ms"]["min"], 4), number(row["ms"]["max"], 4), number(row["gflops"], 1),
             number(row["gb_per_s"], 1), fmt::format("{:.0f} %", 100 * row["roofline_share"].get<double>()));
}

}  // namespace

void bench_kernels(const Config& given, const World& world, const Options& options, const std::string& filter) {
  if (world.size() > 1) {
    throw UsageError("bench", fmt::format("kernels: expected one rank, got {}", world.size()), "run it without mpirun");
  }
  const KernelCases cases = chosen_cases(resolve(given), filter);
  const Peaks peaks = measure_peaks(cases);
  Json result = new_result("kernels", world, options), rows = Json::array();
  result["peaks"] = to_json(peaks);
  result["left_out"] = Json::array();
  fmt::print(stderr, fmt::runtime(kColumns), "kernel", "shape", "dtype", "median ms", "min ms", "max ms", "GFLOP/s",
             "GB/s", "of limit");
  for (const KernelCase& c : cases) {
    if (c.matrix_bytes > kMostMatrixBytes) {
      result["left_out"].push_back(fmt::format("{}: its T x T matrices take {} bytes, more than {}", label(c),
                                               c.matrix_bytes, kMostMatrixBytes));
      continue;
    }
    rows.push_back(measure(c, peaks, options));
    print_row(c, rows.back());
  }
  write_result(std::move(result), std::move(rows), options.out);
}

}  // namespace lt::bench
