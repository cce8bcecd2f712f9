// The JSON of a result.
#include "result.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/pending_file.h"
#include "train/machine.h"

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

Json new_result(std::string_view benchmark, const World& world, const Options& options) {
  return {{"schema", kSchema},         {"benchmark", benchmark},   {"command", options.command},
          {"machine", machine(world)}, {"warmup", options.warmup}, {"iterations", options.iterations}};
}

void write_result(Json result, Json rows, const std::string& out) {
  result["rows"] = std::move(rows);
  const std::string text = result.dump(2) + "\n";
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  if (!out.empty()) write_whole_file("bench", out, text);
}

}  // namespace lt::bench
