// Returns the machine on which rates were measured.
#include <fmt/format.h>

#include "libtrain/error.h"
#include "libtrain/plan/planner.h"
#include "plan/device_model.h"
#include "plan/measured_rates.h"

namespace lt {

PlanMachine measured_machine(const std::vector<std::string>& files, const std::string& device, int cores) {
  const auto rates = planner::read_rates(files);
  PlanMachine machine;
  machine.rates = rates;
  if (cores > 0 && !rates->gpu.empty()) {
    throw UsageError("plan", fmt::format("--cores: expected only with rates of CPU ranks, got those of {} in {}",
                                         rates->gpu, files.front()));
  }
  if (rates->gpu.empty()) {
    machine.device = "cpu";
    machine.cores = cores > 0 ? cores : rates->threads;
  } else if (const planner::DeviceModel* const model = planner::device_model_of(rates->gpu)) {
    machine.device = model->name;
  } else if (!device.empty()) {
    machine.device = device;  // the nearest, as the user says
  } else {
    throw UsageError("plan",
                     fmt::format("--rates: the table of docs/explanation/planning.md has no row for {}", rates->gpu),
                     "name the row to take other figures from: --gpu h200");
  }
  if (!device.empty() && device != machine.device) {
    throw UsageError("plan", fmt::format("--gpu: expected {}, on which {} was measured, got {}", machine.device,
                                         files.front(), device));
  }
  return machine;
}

}  // namespace lt
