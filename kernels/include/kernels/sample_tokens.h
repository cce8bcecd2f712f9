// Samples the next token of each sequence, for generation.
#pragma once

#include <cstdint>

#include "kernels/common.h"
#include "libtrain/kernels/random.h"

namespace lt::kernels {

// Logits of tokens that the sequence already has are multiplied by `penalty` if negative, else divided by it (Keskar et
// al. 2019). With temperature 0 the token is the one with the largest logit, the first of equals. Otherwise token i has
// the weight exp((logit_i - largest) / temperature), and tokens are ordered by falling logits, equal logits by rising
// ids. The candidates are the first top_k tokens (0: all); of these, the fewest whose weights sum to at least top_p of
// their total (Holtzman et al. 2020); of these, the tokens with a weight of at least min_p (Nguyen et al. 2024). The
// first token is always a candidate. The sampled token is the first at which the running sum of weights exceeds u times
// the sum of all candidates' weights. NaN is never sampled. A row without a finite logit yields some token of the
// vocabulary, and -1 in found_R. u is number samples_R[r] of the random stream (key, prompt r / per_prompt,
// continuation r % per_prompt). No row is sorted as a whole. On CUDA, weights are counted in multiples of 2^-40, so the
// order of sums does not matter.
struct SampleTokens {
  DType dtype;
  Size R, V;
  const void* logits_RV;
  double temperature = 1;
  Size top_k = 0;
  double top_p = 1, min_p = 0, penalty = 1;
  std::uint64_t key = 0;
  Size per_prompt = 1;
  std::int32_t* ids_R = nullptr;      // receives the tokens
  std::int32_t* found_R = nullptr;    // like ids_R, but -1 for a row without a finite logit. Null: not written
  std::int32_t* samples_R = nullptr;  // index of the sample; incremented
  std::int32_t* lengths_R = nullptr;  // incremented, to at most most_length
  Size most_length = 0;
  std::uint8_t* seen_RV = nullptr;  // 1 for each token that the sequence has; the new one is added. Null: no penalty
};
template <class S>
void sample_tokens(S stream, const SampleTokens& call);

// Returns the random number, in [0, 1), of sample `index` of a continuation.
constexpr float sample_number(std::uint64_t key, Size prompt, Size continuation, std::uint64_t index) {
  const std::uint64_t stream = static_cast<std::uint64_t>(prompt) << 32 | static_cast<std::uint64_t>(continuation);
  return uniform_from(philox(key, index / 4, stream)[index % 4]);
}

}  // namespace lt::kernels
