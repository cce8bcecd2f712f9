// Reads measured rates.
#include "plan/measured_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "io/json_file.h"
#include "libtrain/error.h"

namespace lt::planner {
namespace {

using Json = nlohmann::ordered_json;

constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::e4m3};  // of rows that are rates

class RatesReader {
 public:
  RatesReader(MeasuredRates& rates, const std::string& path) : rates_(rates), path_(path) {}

  void read() {
    const Json document = io::read_json_file("plan", path_);
    require(document.is_object(), "the whole", "an object", document);
    const Json benchmark = document.value("benchmark", Json()), rows = document.value("rows", Json());
    require(benchmark == "kernels" || benchmark == "comm" || benchmark == "rates", "benchmark",
            "kernels, comm or rates", benchmark);
    require(document.value("schema", Json()) == 1, "schema", "1", document.value("schema", Json()));
    require(rows.is_array(), "rows", "an array", rows);
    read_machine(document);
    if (!rates_.gpu.empty()) attention_of_steps_ = "automatic";
    for (std::size_t i = 0; i < rows.size(); ++i) read_row(rows[i], fmt::format("rows[{}]", i));
  }

 private:
  void require(bool holds, const std::string& what, const std::string& expected, const Json& actual) const {
    if (holds) return;
    throw DataError("plan",
                    fmt::format("{}: {}: expected {}, got {}", path_, what, expected,
                                actual.is_null() ? "nothing" : actual.dump().substr(0, 60)),
                    "rates are what `ltrain bench rates --out FILE` writes");
  }

  void read_machine(const Json& document) {
    const Json machine = document.value("machine", Json());
    require(machine.is_object(), "machine", "an object", machine);
    const Json gpu = machine.value("gpu", Json());
    require(gpu.is_null() || gpu.is_string(), "machine.gpu", "a name or null", gpu);
    const Json device = document.value("device", Json());
    require(device == "cuda" || device == "cpu", "device", "\"cuda\" or \"cpu\"", device);
    const bool on_gpu = device == "cuda" && gpu.is_string();  // a machine with GPUs may have measured its CPU
    const std::string name = on_gpu ? gpu.get<std::string>() : "";
    const std::string before = rates_.gpu.empty() ? "no GPU" : rates_.gpu;
    require(rates_.files.empty() || rates_.gpu == name, "machine.gpu", before + ", as in the file before", gpu);
    rates_.gpu = name;
    if (document.at("benchmark") != "comm" && !on_gpu) read_threads(document);
    rates_.files.push_back(path_);
  }

  void read_threads(const Json& document) {
    const Json peaks = document.value("peaks", Json());
    require(peaks.is_object(), "peaks", "an object", peaks);
    const int threads = count(peaks, "threads", "peaks");
    const bool is_first = rates_.matmuls.empty() && rates_.passes.empty() && rates_.attention.empty();
    require(is_first || rates_.threads == threads, "peaks.threads", fmt::format("{}, as before", rates_.threads),
            threads);
    rates_.threads = threads;
  }

  double number(const Json& object, const char* key, const std::string& at) const {
    const Json value = object.value(key, Json());
    require(value.is_number() && value.get<double>() > 0 && value.get<double>() < 1e30, at + "." + key,
            "a number above 0", value);
    return value.get<double>();
  }

  int count(const Json& object, const char* key, const std::string& at) const {
    constexpr int kMost = 1 << 20;
    const Json value = object.value(key, Json());
    require(value.is_number_integer() && value.get<std::int64_t>() >= 1 && value.get<std::int64_t>() <= kMost,
            at + "." + key, fmt::format("an integer from 1 to {}", kMost), value);
    return value.get<int>();
  }

  void read_row(const Json& row, const std::string& at) {
    require(row.is_object(), at, "an object", row);
    const auto text = [&](const char* key) {
      const Json value = row.value(key, Json(""));
      require(value.is_string(), at + "." + key, "a text", value);
      return value.get<std::string>();
    };
    const std::string name = text("name"), shape = text("shape"), implementation = text("implementation");
    const Json times = row.value("ms", Json());
    require(times.is_object(), at + ".ms", "an object", times);
    const double ms = number(times, "median", at + ".ms");
    const auto found = std::find(std::begin(kCollectives), std::end(kCollectives), name);
    if (found != std::end(kCollectives)) {
      const int ranks = count(row, "ranks", at);
      if (ranks < 2) return;
      const int before = rates_.collectives.empty() ? ranks : rates_.collectives.front().ranks;
      require(ranks == before, at + ".ranks", fmt::format("{}, as before", before), ranks);
      rates_.collectives.push_back({name, implementation == "window", ranks, number(row, "bytes", at), ms});
      return;
    }
    const std::string dtype_name = text("dtype");
    const auto known = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                    [&](DType dtype) { return lt::dtype_name(dtype) == dtype_name; });
    if (known == std::end(kDTypes)) return;
    const DType dtype = *known;
    Size a = 0, b = 0, c = 0, d = 0, e = 0;
    if (name.starts_with("gemm.")) {
      require(std::sscanf(shape.c_str(), "M=%ld N=%ld K=%ld", &a, &b, &c) == 3 && std::min({a, b, c}) > 0,
              at + ".shape", "M=... N=... K=...", shape);
      if (a > 1) rates_.matmuls.push_back({dtype, a, b, c, ms});  // one row is the matmul of generation
    } else if (name == "attention.forward" || name == "attention.backward") {
      if (implementation != attention_of_steps_) return;
      require(std::sscanf(shape.c_str(), "B=%ld T=%ld H=%ld G=%ld D=%ld", &a, &b, &c, &d, &e) == 5 &&
                  std::min({a, b, c, d, e}) > 0,
              at + ".shape", "B=... T=... H=... G=... D=...", shape);
      rates_.attention.push_back({dtype, b, e, name.ends_with("backward"), number(row, "flops", at), ms});
    } else if (!name.starts_with("attention")) {
      rates_.passes.push_back({name, dtype, number(row, "bytes", at), ms});
    }
  }

  MeasuredRates& rates_;
  const std::string& path_;
  std::string attention_of_steps_ = "tiled";
};

}  // namespace

std::shared_ptr<const MeasuredRates> read_rates(const std::vector<std::string>& files) {
  const auto rates = std::make_shared<MeasuredRates>();
  for (const std::string& file : files) RatesReader(*rates, file).read();
  return rates;
}

}  // namespace lt::planner
