// Sampling of the next token, compared with the formula over a fully sorted row.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/array.h"
#include "kernels/sample_tokens.h"
#include "test_main/catch.h"

using namespace lt;
using test::Array;

namespace {

struct Options {
  double temperature = 1;
  Size top_k = 0;
  double top_p = 1, min_p = 0, penalty = 1;
};

std::int32_t expected_token(std::vector<double> logits, const Options& o, const std::vector<std::uint8_t>& seen,
                            double uniform) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (seen[i] != 0) logits[i] = static_cast<float>(logits[i] < 0 ? logits[i] * o.penalty : logits[i] / o.penalty);
  }
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](std::int32_t i) { return logits[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logit(a) > logit(b); });
  if (o.temperature == 0) return order[0];
  if (o.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(o.top_k)));
  const auto weight = [&](std::int32_t i) { return std::exp((logit(i) - logit(order[0])) / o.temperature); };
  const auto sum = [&] {
    return std::accumulate(order.begin(), order.end(), 0.0, [&](double s, auto i) { return s + weight(i); });
  };
  const double bound = o.top_p * sum();
  double up_to = 0;
  std::size_t kept = 0;
  while (kept < order.size() && up_to < bound) up_to += weight(order[kept++]);
  order.resize(std::max<std::size_t>(1, kept));
  while (order.size() > 1 && weight(order.back()) < o.min_p) order.pop_back();
  double rest = uniform * sum();
  for (const std::int32_t i : order) {
    if ((rest -= weight(i)) < 0) return i;
  }
  return order.back();
}

}  // namespace

TEST_CASE("sample_tokens: the token that the formula gives", "[kernels]") {
  const Size R = 3, V = 700, n = 2;
  std::vector<Options> cases{{}, {.temperature = 0}, {.top_k = 1}, {.temperature = 0.7, .top_k = 50, .top_p = 0.9}};
  cases.push_back({.temperature = 2, .top_p = 0.5});
  cases.push_back({.min_p = 0.3});
  cases.push_back({.temperature = 1.5, .top_k = 200, .top_p = 0.95, .min_p = 0.05, .penalty = 1.3});
  cases.push_back({.temperature = 0, .penalty = 5});
  cases.push_back({.temperature = 100, .top_k = 650});
  for (const DType dtype : test::kFloats) {
    for (const Options& o : cases) {
      CAPTURE(dtype_name(dtype), o.temperature, o.top_k, o.top_p, o.min_p, o.penalty);
      Array logits = Array::random(dtype, R * V, 5);
      for (Size i = 0; i < R * V; ++i) logits.set(i, i % V < 100 ? 4 * logits[i] : -std::fabs(logits[i]));
      std::vector<std::uint8_t> seen(static_cast<std::size_t>(R * V));
      for (std::size_t i = 0; i < seen.size(); i += 3) seen[i] = 1;
      std::vector<std::int32_t> ids(3), samples{0, 5, 9}, lengths{4, 8, 9};
      kernels::SampleTokens call{dtype, R, V, logits.data(), o.temperature, o.top_k, o.top_p, o.min_p, o.penalty};
      call.key = derive_key(1337, "sample"), call.per_prompt = n;
      call.ids_R = ids.data(), call.samples_R = samples.data(), call.lengths_R = lengths.data(), call.most_length = 9;
      if (o.penalty != 1) call.seen_RV = seen.data();
      for (int round = 0; round < 20; ++round) {
        std::vector<std::int32_t> expected;
        for (Size r = 0; r < R; ++r) {
          const auto index = static_cast<std::uint64_t>(samples[static_cast<std::size_t>(r)]);
          std::vector<double> row;
          for (Size i = 0; i < V; ++i) row.push_back(logits[r * V + i]);
          std::vector<std::uint8_t> marks(static_cast<std::size_t>(V));
          if (o.penalty != 1) std::copy_n(seen.begin() + r * V, V, marks.begin());
          const double uniform = kernels::sample_number(call.key, r / n, r % n, index);
          if (r == 0) CHECK(uniform == uniform_from(philox_word(call.key, index)));
          expected.push_back(expected_token(std::move(row), o, marks, uniform));
        }
        kernels::sample_tokens(CpuStream{}, call);
        CHECK(ids == expected);
        for (Size r = 0; r < R && o.penalty != 1; ++r)
          CHECK(seen[static_cast<std::size_t>(r * V + ids[static_cast<std::size_t>(r)])] == 1);
      }
      CHECK(samples == std::vector<std::int32_t>{20, 25, 29});
      CHECK(lengths == std::vector<std::int32_t>{9, 9, 9});
    }
  }
}

TEST_CASE("sample_tokens: a row without a finite logit is told apart", "[kernels]") {
  const double inf = HUGE_VAL, nan = std::nan("");
  const std::vector<std::vector<double>> rows{{nan, nan, nan}, {-inf, nan, -inf}, {inf, nan, -inf},
                                              {nan, 2, nan},   {-inf, -inf, 1},   {1, inf, nan}};
  const std::vector<std::int32_t> expected{-1, -1, -1, 1, 2, 1};
  for (const DType dtype : test::kFloats) {
    for (const Options& o : {Options{}, {.temperature = 0}, {.top_k = 2, .top_p = 0.5}, {.penalty = 2}}) {
      CAPTURE(dtype_name(dtype), o.temperature, o.top_k, o.penalty);
      Array logits(dtype, 18);
      for (Size i = 0; i < 18; ++i)
        logits.set(i, rows[static_cast<std::size_t>(i / 3)][static_cast<std::size_t>(i % 3)]);
      std::vector<std::int32_t> ids(6, -5), found(6), samples(6), lengths(6);
      std::vector<std::uint8_t> seen(18);
      kernels::SampleTokens call{dtype, 6, 3, logits.data(), o.temperature, o.top_k, o.top_p, o.min_p, o.penalty};
      call.ids_R = ids.data(), call.found_R = found.data(), call.samples_R = samples.data();
      call.lengths_R = lengths.data(), call.most_length = 9;
      if (o.penalty != 1) call.seen_RV = seen.data();
      kernels::sample_tokens(CpuStream{}, call);
      CHECK(found == expected);
      for (std::size_t r = 0; r < 6; ++r) CHECK((ids[r] >= 0 && ids[r] < 3 && (found[r] < 0 || found[r] == ids[r])));
      const std::vector<std::int32_t> before = ids;
      call.found_R = nullptr, samples.assign(6, 0);
      seen.assign(18, 0);
      kernels::sample_tokens(CpuStream{}, call);
      CHECK(ids == before);
    }
  }
}

TEST_CASE("sample_tokens: of equal logits the first, and every token in turn", "[kernels]") {
  std::vector<float> logits(1000, 2.5f);
  std::int32_t id = 0, samples = 0, length = 0;
  kernels::SampleTokens call{DType::f32, 1, 1000, logits.data()};
  call.ids_R = &id, call.samples_R = &samples, call.lengths_R = &length, call.most_length = 1 << 20;
  for (int i = 0; i < 50; ++i) {
    const float uniform = kernels::sample_number(call.key, 0, 0, static_cast<std::uint64_t>(i));
    kernels::sample_tokens(CpuStream{}, call);
    CHECK(std::abs(id - static_cast<std::int32_t>(uniform * 1000)) <= 1);
  }
  call.temperature = 0;
  kernels::sample_tokens(CpuStream{}, call);
  CHECK(id == 0);
}
