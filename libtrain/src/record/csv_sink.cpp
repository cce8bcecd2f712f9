// Steps as comma-separated values.
#include <fmt/format.h>

#include <filesystem>

#include "record/line_file.h"
#include "record/sink.h"

namespace lt {
namespace {

class CsvSink final : public Sink {
 public:
  explicit CsvSink(const std::string& path) : file_(path) {
    if (std::filesystem::file_size(path) > 0) return;
    std::string names = "step,tokens,loss,grad_norm,lr,step_ms,tokens_per_s,memory_peak_bytes,memory_outside_bytes";
    for (const std::string_view part : kPartNames) names += fmt::format(",{}_ms", part);
    file_.append(names + ",slowest,own_ms_min,own_ms_mean,own_ms_max");
  }

  void step(const StepRecord& r) override {
    std::string row = fmt::format("{},{},{},{},{},{},{},{},{}", r.step, r.tokens, static_cast<double>(r.loss),
                                  static_cast<double>(r.grad_norm), r.lr, r.step_ms, r.tokens_per_s,
                                  r.memory_peak_bytes, r.memory_outside_bytes);
    for (const double ms : r.breakdown_ms) row += fmt::format(",{}", ms);
    const OverRanks& own = r.own_ms_over_ranks;
    file_.append(row + fmt::format(",{},{},{},{}", own.rank_of_max, own.min, own.mean, own.max));
  }
  void evaluation(Size, double) override {}
  void sync() override { file_.sync(); }

 private:
  LineFile file_;
};

}  // namespace

std::unique_ptr<Sink> make_csv_sink(const std::string& path) { return std::make_unique<CsvSink>(path); }

}  // namespace lt
