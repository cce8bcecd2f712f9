// Compares the losses of runs step by step, and their speeds within the scatter of their steps.
#include "report/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "report/text.h"

namespace lt::report {
namespace {

constexpr std::size_t kFewest = 10, kMost = 200;  // steps that a difference is measured over

bool same_loss(const StepRow& a, const StepRow& b, bool by_bits) {
  return by_bits ? a.loss_hex == b.loss_hex : a.loss == b.loss || (std::isnan(a.loss) && std::isnan(b.loss));
}

// The rows of the steps that both runs have.
std::vector<std::pair<const StepRow*, const StepRow*>> common_steps(const RunData& a, const RunData& b) {
  std::vector<std::pair<const StepRow*, const StepRow*>> common;
  for (std::size_t i = 0, j = 0; i < a.steps.size() && j < b.steps.size();) {
    if (a.steps[i].step == b.steps[j].step)
      common.emplace_back(&a.steps[i++], &b.steps[j++]);
    else if (a.steps[i].step < b.steps[j].step)
      ++i;
    else
      ++j;
  }
  return common;
}

// The first and the third quartile.
std::pair<double, double> middle_half(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.size() < 4) return {kMissing, kMissing};
  std::sort(values.begin(), values.end());
  return {values[values.size() / 4], values[values.size() - 1 - values.size() / 4]};
}

// A loss with all digits that tell it from a close one.
std::string precise(double loss) { return std::isnan(loss) ? "not finite" : fmt::format("{:.9g}", loss); }

std::string noise_text(const Agreement& agreement) {
  if (std::isnan(agreement.difference)) return {};
  const double size = std::abs(agreement.difference);
  return fmt::format(
      " Over the last {} of these steps its loss is {:.2g} nats {} on average, {} noise (two standard "
      "errors of the steps' differences: {:.2g}).",
      agreement.window, size, agreement.difference > 0 ? "higher" : "lower",
      size <= agreement.noise ? "within" : "more than", agreement.noise);
}

std::string sentence(const RunData& a, const Agreement& agreement) {
  if (agreement.common == 0) return fmt::format("It has no step in common with {}.", a.name);
  const std::string count = fmt::format("{} step{} that both have", agreement.common, agreement.common == 1 ? "" : "s");
  const char* how = agreement.by_bits ? "bit by bit" : "as printed (without loss_hex, bits cannot be compared)";
  if (std::isnan(agreement.first)) {
    return fmt::format("Its losses equal those of {}, {}, in the {}.", a.name, how, count);
  }
  return fmt::format("Its losses first differ from those of {} at step {}: {} instead of {}; compared {}, in the {}.{}",
                     a.name, whole_text(agreement.first), precise(agreement.loss_b), precise(agreement.loss_a), how,
                     count, noise_text(agreement));
}

}  // namespace

Agreement agreement_of(const RunData& a, const RunData& b) {
  Agreement result;
  const auto common = common_steps(a, b);
  result.common = common.size();
  for (const auto& [x, y] : common) result.by_bits = result.by_bits && !x->loss_hex.empty() && !y->loss_hex.empty();
  for (const auto& [x, y] : common) {
    if (same_loss(*x, *y, result.by_bits)) continue;
    result.first = x->step, result.loss_a = x->loss, result.loss_b = y->loss;
    break;
  }
  std::vector<double> differences;
  const std::size_t window = std::clamp(common.size() / 5, kFewest, kMost);
  for (std::size_t i = common.size() - std::min(window, common.size()); i < common.size(); ++i) {
    const double difference = common[i].second->loss - common[i].first->loss;
    if (std::isfinite(difference)) differences.push_back(difference);
  }
  if (differences.size() < kFewest) return result;
  const auto n = static_cast<double>(differences.size());
  result.window = differences.size();
  result.difference = mean(differences);
  double squares = 0;
  for (double value : differences) squares += (value - result.difference) * (value - result.difference);
  result.noise = 2 * std::sqrt(squares / (n - 1) / n);
  return result;
}

bool same_speed_within_noise(const RunData& a, const RunData& b) {
  const auto [low_a, high_a] = middle_half(column(steady_steps(a), &StepRow::tokens_per_s));
  const auto [low_b, high_b] = middle_half(column(steady_steps(b), &StepRow::tokens_per_s));
  return low_a <= high_b && low_b <= high_a;
}

void add_agreement(Document& document, const std::vector<RunGroup>& groups) {
  List list;
  for (const RunGroup& group : groups) {
    for (std::size_t i = 1; i < group.runs.size(); ++i) {
      const RunData& run = *group.runs[i];
      if (run.steps.empty()) continue;
      std::size_t other = 0;
      for (std::size_t j = 0; j < i; ++j) {  // an equal earlier run says more than the first one
        const Agreement agreement = agreement_of(*group.runs[j], run);
        if (agreement.common == 0 || !std::isnan(agreement.first)) continue;
        other = j;
        break;
      }
      list.items.push_back({run.name, sentence(*group.runs[other], agreement_of(*group.runs[other], run))});
    }
  }
  document.add(list);
}

}  // namespace lt::report
