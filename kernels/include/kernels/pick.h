// Picks the next token of each sequence, for generation.
#pragma once

#include <cstdint>

#include "kernels/common.h"
#include "libtrain/kernels/random.h"

namespace lt::kernels {

// Logits of tokens that the sequence has already are multiplied by `penalty` where negative, divided where not (Keskar
// et al. 2019). Temperature 0 takes the largest, the first of equals. Otherwise token i has the weight
// exp((logit_i - largest) / temperature). In the order of falling logits, and of ids where they are equal, the choice
// is among the first top_k (0: all), of these the fewest whose weights are at least top_p of the sum (Holtzman et al.
// 2020), of these the ones with a weight of at least min_p (Nguyen et al. 2024). The first is always among them. The
// token is the first whose sum of weights, up to its own, is above u times the sum of all choices. NaN is never chosen;
// a row without a finite logit yields some token of the vocabulary, and found_R says so. u is number picks_R[r] of the
// stream (key, prompt r / per_prompt, continuation r % per_prompt). No row is sorted as a whole. On CUDA, weights are
// counted in multiples of 2^-40, so the order of sums does not matter.
struct PickTokens {
  DType dtype;
  Size R, V;
  const void* logits_RV;
  double temperature = 1;
  Size top_k = 0;
  double top_p = 1, min_p = 0, penalty = 1;
  std::uint64_t key = 0;
  Size per_prompt = 1;
  std::int32_t* ids_R = nullptr;      // receives the tokens
  std::int32_t* found_R = nullptr;    // the same, but -1 for a row without a finite logit. Null: not written
  std::int32_t* picks_R = nullptr;    // counted up
  std::int32_t* lengths_R = nullptr;  // counted up, to at most most_length
  Size most_length = 0;
  std::uint8_t* seen_RV = nullptr;  // 1 for each token that the sequence has; the new one is added. Null: no penalty
};
template <class S>
void pick_tokens(S stream, const PickTokens& call);

// The random number of pick `index` of a continuation.
constexpr float pick_number(std::uint64_t key, Size prompt, Size continuation, std::uint64_t index) {
  const std::uint64_t stream = static_cast<std::uint64_t>(prompt) << 32 | static_cast<std::uint64_t>(continuation);
  return uniform_from(philox(key, index / 4, stream)[index % 4]);
}

}  // namespace lt::kernels
