// Writes steps as comma-separated values.
#include <fmt/format.h>

#include <fstream>

#include "record/line_file.h"
#include "record/sink.h"

namespace lt::recorder {
namespace {

class CsvSink final : public Sink {
 public:
  explicit CsvSink(const std::string& path) : file_(path) {
    std::string names =
        "step,tokens,loss,grad_norm,lr,step_ms,tokens_per_s,tokens_per_s_per_rank,mfu,memory_peak_bytes,"
        "memory_outside_bytes";
    for (const std::string_view activity : kActivityNames) names += fmt::format(",{}_ms", activity);
    names += ",slowest,step_ms_min,step_ms_mean,step_ms_max,own_ms_min,own_ms_mean,own_ms_max";
    std::string last, line;  // `last`: the column names of the last version that wrote to the file
    for (std::ifstream file(path); std::getline(file, line);) {
      if (line.starts_with("step,")) last = line;
    }
    if (last != names) file_.append(names);
  }

  void step(const StepRecord& r) override {
    const std::string mfu = r.mfu < 0 ? "" : fmt::format("{}", r.mfu);
    std::string row = fmt::format("{},{},{},{},{},{},{},{},{},{},{}", r.step, r.tokens, static_cast<double>(r.loss),
                                  static_cast<double>(r.grad_norm), r.lr, r.step_ms, r.tokens_per_s,
                                  r.tokens_per_s_per_rank, mfu, r.memory_peak_bytes, r.memory_outside_bytes);
    for (const double ms : r.breakdown_ms) row += fmt::format(",{}", ms);
    const OverRanks &all = r.step_ms_over_ranks, &own = r.own_ms_over_ranks;
    row += fmt::format(",{},{},{},{}", own.rank_of_max, all.min, all.mean, all.max);
    file_.append(row + fmt::format(",{},{},{}", own.min, own.mean, own.max));
  }
  void evaluation(Size, double) override {}
  void sync() override { file_.sync(); }

 private:
  LineFile file_;
};

}  // namespace

std::unique_ptr<Sink> make_csv_sink(const std::string& path) { return std::make_unique<CsvSink>(path); }

}  // namespace lt::recorder
