// Fuzzes results of `ltrain bench rates` as the planner reads them.
#include "plan/measured_rates.h"

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(fuzz::text_of(data, size));
  fuzz::read_or_refuse([&] { lt::planner::read_rates({file.path()}); });
  return 0;
}
