// Samples tokens on the CPU. Sorts only as much of a row as sampling needs.
#include "kernels/sample_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/element_types.h"

namespace lt::kernels {
namespace {

// The tokens of a row in the order of falling logits, sorted as far as they were asked for.
class Falling {
 public:
  explicit Falling(const std::vector<double>& logits) : logits_(logits), order_(logits.size()) {
    std::iota(order_.begin(), order_.end(), 0u);
  }

  std::uint32_t operator[](std::size_t i) {
    if (i >= sorted_) sort(std::max<std::size_t>(i + 1, 4 * sorted_ + 64));
    return order_[i];
  }

 private:
  void sort(std::size_t count) {
    const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    const auto end = order_.begin() + static_cast<std::ptrdiff_t>(std::min(count, order_.size()));
    const auto before = [this](std::uint32_t a, std::uint32_t b) {
      return logits_[a] > logits_[b] || (logits_[a] == logits_[b] && a < b);
    };
    if (end != order_.end()) std::nth_element(begin, end, order_.end(), before);
    std::sort(begin, end, before);
    sorted_ = static_cast<std::size_t>(end - order_.begin());
  }

  const std::vector<double>& logits_;
  std::vector<std::uint32_t> order_;
  std::size_t sorted_ = 0;
};

std::uint32_t sample(const std::vector<double>& logits, const SampleTokens& call, float uniform) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (call.temperature == 0 || std::isinf(*largest)) return static_cast<std::uint32_t>(largest - logits.begin());
  const auto weight = [&](std::uint32_t token) { return std::exp((logits[token] - *largest) / call.temperature); };
  Falling order(logits);
  std::size_t kept = logits.size();
  if (call.top_k > 0) kept = std::min(kept, static_cast<std::size_t>(call.top_k));
  double total = 0;
  if (kept < logits.size()) {
    for (std::size_t i = 0; i < kept; ++i) total += weight(order[i]);
  } else {
    for (std::uint32_t i = 0; i < logits.size(); ++i) total += weight(i);
  }
  if (call.top_p < 1 || call.min_p > 0) {
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i) {
      const double own = weight(order[i]);
      if (i > 0 && own < call.min_p) {
        kept = i;
        break;
      }
      sum += own;
      if (sum >= call.top_p * total) kept = i + 1;
    }
    total = sum;
  }
  double rest = static_cast<double>(uniform) * total;
  for (std::size_t i = 0; i < kept; ++i) {
    rest -= weight(order[i]);
    if (rest < 0) return order[i];
  }
  return order[kept - 1];
}

}  // namespace

template <>
void sample_tokens(CpuStream, const SampleTokens& call) {
  std::vector<double> logits(static_cast<std::size_t>(call.V));
  for (Size r = 0; r < call.R; ++r) {
    std::uint8_t* const seen = call.seen_RV == nullptr ? nullptr : call.seen_RV + r * call.V;
    dispatch_float(call.dtype, [&]<class T>() {
      const T* const row = static_cast<const T*>(call.logits_RV) + r * call.V;
      for (Size i = 0; i < call.V; ++i) logits[static_cast<std::size_t>(i)] = static_cast<double>(row[i]);
    });
    for (Size i = 0; seen != nullptr && i < call.V; ++i) {
      if (seen[i] == 0) continue;
      const auto penalty = static_cast<float>(call.penalty),
                 own = static_cast<float>(logits[static_cast<std::size_t>(i)]);
      logits[static_cast<std::size_t>(i)] = own < 0 ? own * penalty : own / penalty;
    }
    for (double& logit : logits) {
      if (std::isnan(logit)) logit = -std::numeric_limits<double>::infinity();  // NaN has no order
    }
    const float uniform = sample_number(call.key, r / call.per_prompt, r % call.per_prompt,
                                        static_cast<std::uint64_t>(call.samples_R[r]++));
    const std::uint32_t token = sample(logits, call, uniform);
    call.ids_R[r] = static_cast<std::int32_t>(token);
    if (call.found_R != nullptr) {
      const bool has_finite = std::any_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); });
      call.found_R[r] = has_finite ? call.ids_R[r] : -1;
    }
    if (seen != nullptr) seen[token] = 1;
    call.lengths_R[r] = std::min(call.lengths_R[r] + 1, static_cast<std::int32_t>(call.most_length));
  }
}

}  // namespace lt::kernels
