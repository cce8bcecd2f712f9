// The kernel benchmark: measures the peaks, times the cases, writes the rows.
#include "bench/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/floor.h"
#include "bench/kernel_case.h"
#include "bench/table.h"
#include "bench/timing.h"
#include "bench/training.h"
#include "config/derive.h"
#include "io/print_note.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "plan/run_rates.h"

namespace lt::bench {
namespace {

constexpr double kBlockMs = 1000;  // time budget of a block; slow kernels get fewer calls

struct Peaks {
  Floor floor;
  bool is_cuda;
  double bf16_matmuls = 0;  // 0: not needed

  // In e4m3, GPUs make twice as many matmuls as in bf16; CPUs make them in bf16.
  double flops_of(const KernelCase& c) const {
    if (!is_of_matrices(c)) return floor.multiply_add_flops;
    return c.dtype == DType::e4m3 && is_cuda ? 2 * bf16_matmuls : bf16_matmuls;
  }
  static bool is_of_matrices(const KernelCase& c) {
    return c.work == Work::matmul && (c.dtype == DType::bf16 || c.dtype == DType::e4m3);
  }
};

std::string label(const KernelCase& c) {
  return fmt::format("{} {} {} {}", c.name, c.implementation, c.shape, dtype_name(c.dtype));
}

KernelCases all_cases(const Resolved& resolved, Device device) {
  const EngineOptions step = resolved.step;
  const KernelSizes sizes{device, config::model_spec(resolved.config), step.micro_batch, step.seq};
  KernelCases all;
  add_gemm_cases(all, sizes);
  add_quantized_cases(all, sizes);
  add_attention_cases(all, sizes);
  add_row_cases(all, sizes);
  add_token_cases(all, sizes);
  add_flat_cases(all, sizes);
  return all;
}

KernelCases chosen_cases(const Resolved& resolved, Device device, const std::string& filter) {
  KernelCases all = all_cases(resolved, device), chosen;
  for (KernelCase& c : all) {
    if (label(c).find(filter) != std::string::npos) chosen.push_back(std::move(c));
  }
  if (chosen.empty()) {
    throw UsageError("bench", fmt::format("--filter: expected a part of a row's name, got \"{}\"", filter),
                     fmt::format("a row's name: \"{}\"", label(all.front())));
  }
  return chosen;
}

Peaks measure_peaks(const KernelCases& cases, Device device) {
  Peaks peaks{measure_floor(device), device.type == DeviceType::cuda};
  for (const KernelCase& c : cases) {
    if (Peaks::is_of_matrices(c)) {
      peaks.bf16_matmuls = measure_bf16_matmuls(device);
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
          {"bf16_matmul_gflops", peaks.bf16_matmuls > 0 ? Json(peaks.bf16_matmuls * 1e-9) : Json()},
          {"memory", memory}};
}

void require_agreement(const KernelCase& c, double max_error) {
  if (max_error <= c.tolerance) return;
  throw InternalError("bench", fmt::format("{}: expected the reference's numbers within {:g}, got an error of {:g}",
                                           label(c), c.tolerance, max_error));
}

struct MeasuredKernel {
  std::vector<std::vector<double>> blocks;
  double max_error = -1;

  // Times one block, on newly allocated arrays.
  void measure(const KernelCase& c, Size warmup, Size iterations, Device device) {
    const PreparedKernel kernel = c.prepare();
    max_error = std::max(max_error, kernel.max_error);
    require_agreement(c, kernel.max_error);
    blocks.push_back(time_calls(warmup, iterations, kBlockMs, kernel.launch, device));
  }
};

Json row_of(const KernelCase& c, const MeasuredKernel& measured, const Peaks& peaks) {
  std::size_t calls = 0;
  for (const auto& block : measured.blocks) calls += block.size();
  const Json ms = times(measured.blocks);
  const double middle = ms["median"].get<double>();
  const double flops = static_cast<double>(c.flops), bytes = static_cast<double>(c.bytes);
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
                  {"iterations", calls},
                  {"ms", ms},
                  {"gflops", flops / middle * 1e-6},
                  {"gb_per_s", bytes / middle * 1e-6},
                  {"limit_ms", limit_ms},
                  {"limited_by", compute_ms > memory_ms ? "flops" : "memory"},
                  {"roofline_share", limit_ms / middle}});
  if (measured.max_error >= 0) row["max_error"] = measured.max_error, row["tolerance"] = c.tolerance;
  return row;
}

constexpr Column kKernelColumns[] = {{"kernel", -40}, {"shape", -34}, {"dtype", -5}, {"median ms", 9}, {"min ms", 9},
                                     {"max ms", 9},   {"GFLOP/s", 8}, {"GB/s", 8},   {"of limit", 8}};

void print_kernel_row(const std::string& name, const Json& row) {
  const Json& ms = row["ms"];
  print_cells(kKernelColumns,
              {name, row["shape"].get<std::string>(), row["dtype"].get<std::string>(), fixed(ms["median"], 4),
               fixed(ms["min"], 4), fixed(ms["max"], 4), fixed(row["gflops"], 1), fixed(row["gb_per_s"], 1),
               fixed(row["roofline_share"], 0, 100) + " %"});
}

// What estimates read: matmuls but those of generation, attention as steps run it, and the passes of a block and of
// the optimizer, in the dtype of the run.
bool is_rate(const KernelCase& c, const EngineOptions& step, Device device) {
  const DType dtype = planner::dtype_of_rates(step.dtype, device.type == DeviceType::cuda);
  if (c.dtype != dtype && !(step.fp8 && c.dtype == DType::e4m3)) return false;
  if (c.name.ends_with(".decode")) return false;
  if (c.name.starts_with("attention.")) {
    return c.implementation == (device.type == DeviceType::cuda ? "automatic" : "tiled");
  }
  constexpr const char* kRates[] = {"gemm.", "layer_norm.", "rms_norm.", "gelu.", "swiglu.", "adamw"};
  return std::any_of(std::begin(kRates), std::end(kRates), [&](const char* name) { return c.name.starts_with(name); });
}

// Measures the cases on this rank.
KernelResult measure(KernelCases cases, Device device, const Options& options) {
  KernelResult result;
  std::erase_if(cases, [&](const KernelCase& c) {
    if (c.matrix_bytes <= most_matrix_bytes(device)) return false;
    result.left_out.push_back(fmt::format("{}: its T x T matrices take {} bytes, more than {}", label(c),
                                          c.matrix_bytes, most_matrix_bytes(device)));
    return true;
  });
  const Peaks peaks = measure_peaks(cases, device);
  std::vector<MeasuredKernel> measured(cases.size());
  for (Size b = 0; b < kBlocks; ++b) {
    const Size iterations = block_size(options.iterations, b);
    for (std::size_t i = 0; iterations > 0 && i < cases.size(); ++i) {
      measured[i].measure(cases[i], options.warmup, iterations, device);
    }
  }
  result.peaks = to_json(peaks);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    result.rows.push_back(row_of(cases[i], measured[i], peaks));
    result.names.push_back(cases[i].implementation.empty() ? cases[i].name
                                                           : cases[i].name + " " + cases[i].implementation);
  }
  return result;
}

}  // namespace

void print_kernels(const KernelResult& result) {
  print_header(kKernelColumns);
  for (std::size_t i = 0; i < result.rows.size(); ++i) print_kernel_row(result.names[i], result.rows[i]);
}

Resolved resolve_alone(Config given) {
  given.train.global_batch = 0;
  return resolve(given, 1);
}

KernelResult measure_rates(const Resolved& resolved, Device device, const Options& options) {
  KernelCases cases = all_cases(resolved, device);
  const EngineOptions step = resolved.step;
  std::erase_if(cases, [&](const KernelCase& c) { return !is_rate(c, step, device); });
  return measure(std::move(cases), device, options);
}

void bench_kernels(const Config& given, const World& world, const Options& options, const std::string& filter) {
  require_one_rank("kernels", world);
  const Resolved resolved = resolve_alone(given);
  const Device device = step_options_with_algorithms(resolved, world).device;
  const KernelResult measured = measure(chosen_cases(resolved, device, filter), device, options);
  for (const Json& left_out : measured.left_out) io::print_note("left out: {}\n", left_out.get<std::string>());
  if (measured.rows.empty()) throw UsageError("bench", "kernels: expected one that can be measured, all were left out");
  print_kernels(measured);
  Json result = new_result("kernels", world, options, device);
  result["peaks"] = measured.peaks;
  result["left_out"] = measured.left_out;
  write_result(std::move(result), measured.rows, options.out);
}

}  // namespace lt::bench
