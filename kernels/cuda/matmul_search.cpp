// Times the algorithms of each matmul between the calls of a step.
#include "kernels/cuda/matmul_search.h"

#include <string>
#include <utility>
#include <vector>

#include "device/cuda.h"
#include "kernels/matmul_algorithms.h"
#include "kernels/sustained_choice.h"

namespace lt::kernels {
namespace {

// "bf16 16384 x 6400 x 1600, B transposed, bias".
std::string name_of(const TableMatmul& m) {
  std::string text(dtype_name(m.dtype));
  if (m.out != m.dtype) text += " to " + std::string(dtype_name(m.out));
  text += " " + std::to_string(m.M) + " x " + std::to_string(m.N) + " x " + std::to_string(m.K);
  if (m.transpose_a) text += ", A transposed";
  if (m.transpose_b) text += ", B transposed";
  constexpr const char* kEpilogues[] = {"", ", bias", ", GELU", ", bias and GELU", ", GELU's gradient", ", sums of A"};
  return text + kEpilogues[static_cast<std::size_t>(m.epilogue)];
}

// Returns the mean milliseconds of consecutive calls.
double mean_ms(int device, int calls, const std::function<void()>& call) {
  const Stream compute = Stream::compute({DeviceType::cuda, device});
  const TimePoint begin = TimePoint::on(compute);
  for (int i = 0; i < calls; ++i) call();
  return TimePoint::on(compute).ms_since(begin) / calls;
}

}  // namespace

void MatmulSearch::see(Prepared& p, const Launch& launch) {
  const std::optional<TableMatmul> matmul = p.problem.in_table();
  if (!matmul) return;
  if (counts_) {
    counted_.insert(&p);
    return;
  }
  if (!present_.emplace(&p, p.choice).second) return;
  const Algorithm present = p.choice.algorithm;
  LT_CUBLAS(launch(present));
  std::vector<Algorithm> all = cublas_.all_algorithms(p);
  std::erase_if(all,
                [&](const Algorithm& other) { return other == present || launch(other) != CUBLAS_STATUS_SUCCESS; });
  all.insert(all.begin(), present);
  const SustainedChoice chosen = fastest_when_sustained(all.size(), [&](std::size_t way, int calls) {
    return mean_ms(p.problem.device, calls, [&] { LT_CUBLAS(launch(all[way])); });
  });
  p.choice.algorithm = all[chosen.way];
  report_({name_of(*matmul), chosen.first_ms, chosen.ms, static_cast<Size>(counted_.size())});
}

void MatmulSearch::see(Prepared& p, const Run& fused, const Run& passes) {
  if (counts_ || !p.problem.in_table() || present_.contains(&p)) {
    if (counts_ || p.choice.fused) fused();
    if (counts_ || !p.choice.fused) passes();
    return;
  }
  const bool begins_fused = p.choice.fused;
  fused(), passes();  // searches their matmuls
  const SustainedChoice chosen = fastest_when_sustained(2, [&](std::size_t way, int calls) {
    return mean_ms(p.problem.device, calls, (way == 0) == begins_fused ? fused : passes);
  });
  p.choice.fused = (chosen.way == 0) == begins_fused;
}

AlgorithmTable MatmulSearch::search(const Run& compute) {
  // Ends the search, also after an error: the device keeps its own table.
  const struct Seeing {
    explicit Seeing(MatmulSearch& begun) : search(begun) { search.cublas_.set_search(&search); }
    ~Seeing() {
      search.cublas_.set_search(nullptr);
      for (auto& [p, present] : search.present_) p->choice = present;
    }
    MatmulSearch& search;
  } seeing(*this);
  compute();
  counts_ = false;
  compute();
  AlgorithmTable table =
      cublas_.table().value_or(AlgorithmTable{.gpu = cublas_.gpu(), .cublaslt = {}, .algorithms = {}});
  table.cublaslt = cublaslt_version();
  for (const auto& [p, present] : present_) {
    const Choice& found = p->choice;
    table.algorithms.insert_or_assign(*p->problem.in_table(), found.fused
                                                                  ? attributes_of(found.algorithm)
                                                                  : TableAlgorithm{.attributes = {}, .passes = true});
  }
  return table;
}

std::string search_matmuls(Device device, const std::function<void()>& compute,
                           const std::function<void(const SearchedMatmul&)>& report) {
  return MatmulSearch(Cublas::of(device.index), report).search(compute).text();
}

}  // namespace lt::kernels
