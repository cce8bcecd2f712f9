// Compares the losses of runs step by step, and decides if their speeds differ by more than noise.
#include "report/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "report/text.h"

namespace lt::report {
namespace {

constexpr std::size_t kFewest = 10, kMost = 200;  // steps that a difference is measured over

// Losses that are not finite, and those of steps without a counted target, are the same, whatever their bits: what they
// are says nothing of the runs.
bool same_loss(const StepRow& a, const StepRow& b, bool by_bits) {
  if (!std::isfinite(a.loss) && !std::isfinite(b.loss)) return true;
  return by_bits ? a.loss_hex == b.loss_hex : a.loss == b.loss;
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
std::string precise(double loss) { return !std::isfinite(loss) ? "not finite" : fmt::format("{:.9g}", loss); }

std::string noise_text(const RunData& a, const Agreement& agreement) {
  if (std::isnan(agreement.difference)) return {};
  const double size = std::abs(agreement.difference);
  std::string text =
      agreement.window == agreement.last
          ? fmt::format(" Over the last {} of these steps", agreement.window)
          : fmt::format(" Over the {} finite ones of the last {} of these steps", agreement.window, agreement.last);
  if (size == 0) return text + " the two losses are the same on average.";
  return text + fmt::format(
                    " its loss is {:.2g}{} {} on average, {} two standard errors of the steps' differences ({:.2g}), "
                    "which is the least that noise may be.",
                    size, loss_unit(a, " nats", ""), agreement.difference > 0 ? "higher" : "lower",
                    size <= agreement.noise ? "within" : "more than", agreement.noise);
}

std::string sentence(const RunData& a, const Agreement& agreement) {
  if (agreement.common == 0) return fmt::format("It has no step in common with {}.", a.name);
  const std::string count = fmt::format("{} step{} that both have", agreement.common, agreement.common == 1 ? "" : "s");
  std::string how = agreement.by_bits ? "bit by bit" : "as printed (without loss_hex, bits cannot be compared)";
  if (agreement.any_not_finite) how += " (losses that are not finite count as equal)";
  if (std::isnan(agreement.first)) {
    return fmt::format("Its losses equal those of {}, {}, in the {}.", a.name, how, count);
  }
  const std::string tokens =
      agreement.same_tokens ? ""
                            : " Their steps have different numbers of tokens, so they have not seen the same data.";
  return fmt::format(
      "Its losses first differ from those of {} at step {}: {} instead of {}; compared {}, in the {}.{}{}", a.name,
      whole_text(agreement.first), precise(agreement.loss_b), precise(agreement.loss_a), how, count, tokens,
      noise_text(a, agreement));
}

}  // namespace

Agreement agreement_of(const RunData& a, const RunData& b) {
  Agreement result;
  const auto common = common_steps(a, b);
  result.common = common.size();
  for (const auto& [x, y] : common) {
    result.by_bits = result.by_bits && !x->loss_hex.empty() && !y->loss_hex.empty();
    result.any_not_finite = result.any_not_finite || (!std::isfinite(x->loss) && !std::isfinite(y->loss));
    result.same_tokens = result.same_tokens && (x->tokens == y->tokens || std::isnan(x->tokens - y->tokens));
  }
  for (const auto& [x, y] : common) {
    if (same_loss(*x, *y, result.by_bits)) continue;
    result.first = x->step, result.loss_a = x->loss, result.loss_b = y->loss;
    break;
  }
  std::vector<double> differences;
  result.last = std::min(std::clamp(common.size() / 5, kFewest, kMost), common.size());
  for (std::size_t i = common.size() - result.last; i < common.size(); ++i) {
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
      // An equal earlier run says more than the first one with common steps, and that one more than any other.
      const RunData* other = group.runs[0];
      Agreement shown = agreement_of(*other, run);
      for (std::size_t j = 1; j < i && (shown.common == 0 || !std::isnan(shown.first)); ++j) {
        const Agreement agreement = agreement_of(*group.runs[j], run);
        if (agreement.common == 0 || (shown.common > 0 && !std::isnan(agreement.first))) continue;
        other = group.runs[j], shown = agreement;
      }
      list.items.push_back({run.name, sentence(*other, shown)});
    }
  }
  document.add(list);
}

}  // namespace lt::report
