// Text that plans and fits share.
#pragma once

#include <string>

#include "libtrain/train/planner.h"
#include "record/short_text.h"

namespace lt {

// For example "h200" or "2 cpu cores a rank".
inline std::string device_text(const PlanMachine& machine) {
  if (machine.device != "cpu") return machine.device;
  return counted(machine.cores, "cpu core") + " a rank";
}

}  // namespace lt
