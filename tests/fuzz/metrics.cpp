// Fuzzes a run's metrics.jsonl as the report reads it.
#include "report/metrics.h"

#include "fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::File file(fuzz::text_of(data, size));
  fuzz::read_or_refuse([&] {
    lt::report::RunData run;
    lt::report::read_metrics(run, file.path());
  });
  return 0;
}
