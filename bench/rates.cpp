// Implements `ltrain bench rates`.
#include "bench/rates.h"

#include <utility>

#include "bench/kernels.h"
#include "bench/training.h"
#include "libtrain/config/resolved.h"

namespace lt::bench {

void bench_rates(const Config& given, const World& world, const CommOptions& options) {
  const Resolved resolved = resolve_alone(given);
  CommOptions comm = options;
  comm.device = step_options_with_algorithms(resolved, world).device;
  if (world.size() > 1) require_collectives(world, comm);
  world.group().barrier();
  const KernelResult kernels = measure_rates(resolved, comm.device, options);
  Json rows = kernels.rows;
  if (world.rank() == 0) print_kernels(kernels);
  if (world.size() > 1) {
    for (Json& row : measure_collectives(world, comm)) rows.push_back(std::move(row));
  }
  if (world.rank() != 0) return;
  Json result = new_result("rates", world, options, comm.device);
  result["peaks"] = kernels.peaks;
  result["left_out"] = kernels.left_out;
  write_result(std::move(result), std::move(rows), options.out);
}

}  // namespace lt::bench
