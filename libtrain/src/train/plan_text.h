// Words that plans and fits share.
#pragma once

#include <fmt/format.h>

#include <string>

#include "libtrain/planner.h"

namespace lt {

// "h200", "2 cpu cores a rank".
inline std::string device_text(const PlanMachine& machine) {
  if (machine.device != "cpu") return machine.device;
  return fmt::format("{} cpu core{} a rank", machine.cores, machine.cores == 1 ? "" : "s");
}

}  // namespace lt
