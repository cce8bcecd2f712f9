// Samples tokens on the GPU. A row lies in the L2 cache and is read several times instead of being sorted: each pass
// narrows down, by a histogram, where a sum of weights or a number of tokens crosses a bound. The bins of the first
// pass divide the distance from the largest logit linearly, which spreads the tokens over the bins. Later passes use
// the bits of the logit and, among equal logits, the ids. A long row is cut into parts, one for each block of a cluster
// (compute capability 9.0 and above). Sums are of integers, so their order does not matter.
#include "kernels/sample_tokens.h"

#include "kernels/cuda/common.cuh"
#include "kernels/cuda/early_launch.cuh"
#include "kernels/cuda/row_parts.cuh"

namespace lt::kernels {
namespace {

constexpr int kSampleThreads = 1024, kBins = 2 * kSampleThreads;
constexpr int kParts = 8;             // the largest cluster that every such device takes
constexpr Size kCutRow = 16384;      // tokens from which a row is cut
constexpr float kUnit = 0x1p40f;      // the weight of the largest logit
constexpr float kBinsPerNat = 72.0f;  // beyond the last bin weights round to 0
using Sum = unsigned long long;

template <class T>
struct Row {
  const T* logits;
  const std::uint8_t* seen;
  Size V;
  Size begin, end;               // the tokens of this block
  bool is_aligned;               // V is a whole number of packs
  float penalty, rate, largest;  // rate: 1 / temperature

  __device__ float penalized(T logit, Size i) const {
    float x = static_cast<float>(load(logit)) + 0.0f;  // -0 is 0
    if (seen != nullptr && seen[i] != 0) x = (x < 0 ? x * penalty : x / penalty) + 0.0f;
    return x;
  }
  __device__ float logit(Size i) const { return penalized(logits[i], i); }
  // Calls visit(token, logit) for the tokens of this thread in ascending order, 16 bytes at a time where rows are
  // aligned.
  template <class F>
  __device__ void for_each(F&& visit) const {
    constexpr int kCount = kPack<T>;
    if (!is_aligned) {
      for (Size i = begin + threadIdx.x; i < end; i += kSampleThreads) visit(i, logit(i));
      return;
    }
#pragma unroll 2
    for (Size at = begin + threadIdx.x * kCount; at < end; at += kSampleThreads * kCount) {
      const auto pack = *reinterpret_cast<const Pack<T, kCount>*>(logits + at);
#pragma unroll
      for (int k = 0; k < kCount; ++k) visit(at + k, penalized(pack.values[k], at + k));
    }
  }
  // Bins in the order of falling logits.
  __device__ int linear_bin(float x) const {
    return static_cast<int>(fminf((largest - x) * rate * kBinsPerNat, static_cast<float>(kBins - 1)));
  }
  __device__ float weight(float x) const { return expf((x - largest) * rate); }
  __device__ Sum units(float x) const {
    return linear_bin(x) == kBins - 1 ? 0 : static_cast<Sum>(weight(x) * kUnit + 0.5f);
  }
};

// Larger logits have smaller keys.
__device__ std::uint32_t key_of(float x) {
  const std::uint32_t bits = __float_as_uint(x);
  return (bits >> 31) != 0 ? bits : ~bits & 0x7fffffffu;
}
__device__ float logit_of(std::uint32_t key) { return __uint_as_float((key >> 31) != 0 ? key : ~key & 0x7fffffffu); }

// f over the values of all threads of a block.
template <class V, class F>
__device__ V over_block(V x, const F& f) {
  __shared__ V parts[kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x = f(x, V(__shfl_xor_sync(0xffffffffu, x, offset)));
  __syncthreads();
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = x;
  __syncthreads();
  V all = parts[0];
  for (int w = 1; w < kSampleThreads / kWarp; ++w) all = f(all, parts[w]);
  return all;
}
// The same over all blocks of a row.
template <class Parts>
__device__ Sum sum_of_row(Sum x) {
  const auto add = [](Sum a, Sum b) { return a + b; };
  return Parts::over_parts(over_block(x, add), add);
}
template <class Parts>
__device__ Sum least_of_row(Sum x) {
  const auto least = [](Sum a, Sum b) { return a < b ? a : b; };
  return Parts::over_parts(over_block(x, least), least);
}

// Finds the first bin at which `before` plus the sum of all bins up to it is at least `bound`, and adds the bins before
// it to `before`. A bin is the sum of those of all blocks. The same result in every thread.
template <class Parts>
__device__ int crossing(const Sum* bins, Sum bound, Sum& before) {
  __shared__ Sum parts[kWarp], found_before;
  __shared__ int found;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  Sum first = 0, second = 0;
  Parts::synchronize();
#pragma unroll
  for (int p = 0; p < Parts::kCount; ++p) {
    const Sum* const of_part = Parts::of(bins, p);
    first += of_part[2 * thread], second += of_part[2 * thread + 1];
  }
  Sum up_to = first + second;
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const Sum other = __shfl_up_sync(0xffffffffu, up_to, offset);
    if (lane >= offset) up_to += other;
  }
  if (lane == kWarp - 1) parts[warp] = up_to;
  if (thread == 0) found = kBins - 1, found_before = before;
  __syncthreads();
  Sum base = before;
  for (int w = 0; w < warp; ++w) base += parts[w];
  const Sum from = base + up_to - first - second;
  if (from < bound && bound <= from + first) found = 2 * thread, found_before = from;
  if (from + first < bound && bound <= from + first + second) found = 2 * thread + 1, found_before = from + first;
  __syncthreads();
  before = found_before;
  const int bin = found;
  Parts::synchronize();  // the bins may change now
  return bin;
}

// Where, in the order of falling logits, the sum of weights, or the number of tokens with a weight, reaches `bound`.
struct Cut {
  std::uint32_t key;  // of the tokens there
  Sum before;         // the sum of all with larger logits
};

template <class Parts, class T>
__device__ Cut select(const Row<T>& row, Sum bound, bool counts, Sum* bins) {
  Cut cut{0, 0};
  int linear = -1;
  std::uint32_t known = 0;  // bits of the key that are decided
  for (const int shift : {-1, 21, 10, 0}) {
    const std::uint32_t digits = shift == 0 ? 1023 : 2047;
    for (int i = static_cast<int>(threadIdx.x); i < kBins; i += kSampleThreads) bins[i] = 0;
    __syncthreads();
    row.for_each([&](Size, float x) {
      const Sum own = row.units(x);
      if (own == 0) return;  // most tokens: they would all meet in the last bin
      const int bin = row.linear_bin(x);
      if (shift < 0) {
        atomicAdd(&bins[bin], counts ? Sum{1} : own);
      } else if (const std::uint32_t key = key_of(x); bin == linear && (key & known) == cut.key) {
        atomicAdd(&bins[(key >> shift) & digits], counts ? Sum{1} : own);
      }
    });
    const int bin = crossing<Parts>(bins, bound, cut.before);
    if (shift < 0) {
      linear = bin;
    } else {
      cut.key |= static_cast<std::uint32_t>(bin) << shift, known |= digits << shift;
    }
  }
  return cut;
}

// The token number `skip` of those with this key, in the order of ids.
template <class Parts, class T>
__device__ int token_of(const Row<T>& row, std::uint32_t key, Sum skip) {
  Sum found = static_cast<Sum>(row.V), passed = 0;
  if (skip == 0) {
    row.for_each([&](Size i, float x) {
      if (key_of(x) == key && static_cast<Sum>(i) < found) found = static_cast<Sum>(i);
    });
  } else {
    Sum matches = 0;
    row.for_each([&](Size, float x) { matches += key_of(x) == key ? 1 : 0; });
    matches = over_block(matches, [](Sum a, Sum b) { return a + b; });
    passed = Parts::before_part(matches);
    for (Size base = row.begin; base < row.end && passed <= skip && matches > 0; base += kSampleThreads) {
      const Size i = base + threadIdx.x;
      const bool is_match = i < row.end && key_of(row.logit(i)) == key;
      const auto count = static_cast<Sum>(__syncthreads_count(is_match));
      if (passed + count > skip && is_match) {  // few: count those before this one
        Sum own = passed;
        for (Size j = base; j < i; ++j) own += key_of(row.logit(j)) == key ? 1 : 0;
        if (own == skip) found = static_cast<Sum>(i);
      }
      passed += count;
    }
  }
  const auto token = static_cast<Size>(least_of_row<Parts>(found));
  return token < row.V ? static_cast<int>(token) : 0;
}

struct Choice {
  float temperature, top_p, min_p;
  Size top_k;
};

// `has_finite`: whether the row has a finite logit.
template <class Parts, class T>
__device__ int choose(Row<T> row, const Choice& c, float uniform, Sum* bins, bool& has_finite) {
  float largest = -INFINITY;
  Size first = row.V;  // with the largest logit
  row.for_each([&](Size i, float x) {
    if (x > largest) largest = x, first = i;
  });
  const Sum best = least_of_row<Parts>(static_cast<Sum>(key_of(largest)) << 32 | static_cast<Sum>(first));
  row.largest = logit_of(static_cast<std::uint32_t>(best >> 32));
  has_finite = row.largest != -INFINITY;
  if (!has_finite) return 0;
  if (row.largest == INFINITY) {
    Sum finite = 0;
    row.for_each([&](Size, float x) { finite |= isfinite(x) ? 1 : 0; });
    has_finite = sum_of_row<Parts>(finite) > 0;
  }
  // Beside an infinite logit no other has weight.
  if (c.temperature == 0 || row.largest == INFINITY) {
    return static_cast<Size>(best & 0xffffffffu) < row.V ? static_cast<int>(best) : 0;
  }
  Sum all = 0, likely = 0, weighed = 0;
  row.for_each([&](Size, float x) {
    const Sum own = row.units(x);
    all += own, weighed += own > 0 ? 1 : 0;
    if (row.weight(x) >= c.min_p) likely += own;
  });
  all = sum_of_row<Parts>(all), likely = sum_of_row<Parts>(likely), weighed = sum_of_row<Parts>(weighed);
  if (c.top_k > 0 && static_cast<Sum>(c.top_k) < weighed) {
    const Cut last = select<Parts>(row, static_cast<Sum>(c.top_k), true, bins);
    Sum larger = 0;
    row.for_each([&](Size, float x) {
      if (key_of(x) < last.key) larger += row.units(x);
    });
    all = sum_of_row<Parts>(larger) + (static_cast<Sum>(c.top_k) - last.before) * row.units(logit_of(last.key));
  }
  if (c.top_p < 1) {
    const auto share = static_cast<Sum>(ceil(static_cast<double>(c.top_p) * static_cast<double>(all)));
    const Sum bound = share < 1 ? 1 : share > all ? all : share;
    const Cut last = select<Parts>(row, bound, false, bins);
    const Sum own = row.units(logit_of(last.key));
    if (own > 0) all = last.before + (bound - last.before + own - 1) / own * own;
  }
  if (likely < all) all = likely;
  const auto reached = static_cast<Sum>(static_cast<double>(uniform) * static_cast<double>(all)) + 1;
  const Sum bound = reached > all ? all : reached;
  const Cut cut = select<Parts>(row, bound, false, bins);
  const Sum own = row.units(logit_of(cut.key));
  return token_of<Parts>(row, cut.key, own > 0 ? (bound - cut.before - 1) / own : 0);
}

template <class T, int kBlocks>
__global__ void __launch_bounds__(kSampleThreads) sample_kernel(SampleTokens call, Choice choice, bool is_aligned) {
  using Parts = RowParts<kBlocks>;
  __shared__ Sum bins[kBins];
  let_next_kernel_start();
  wait_for_earlier_kernels();
  const Size r = blockIdx.x / kBlocks, part = blockIdx.x % kBlocks;
  const Size even = (call.V + kBlocks - 1) / kBlocks, length = (even + kPack<T> - 1) / kPack<T> * kPack<T>;
  const Size begin = part * length < call.V ? part * length : call.V;
  std::uint8_t* const seen = call.seen_RV == nullptr ? nullptr : call.seen_RV + r * call.V;
  const float rate = choice.temperature > 0 ? fminf(1 / choice.temperature, 1e38f) : 0;
  const Row<T> row{static_cast<const T*>(call.logits_RV) + r * call.V,
                   seen,
                   call.V,
                   begin,
                   begin + length < call.V ? begin + length : call.V,
                   is_aligned,
                   static_cast<float>(call.penalty),
                   rate,
                   0};
  const float uniform =
      sample_number(call.key, r / call.per_prompt, r % call.per_prompt, static_cast<std::uint64_t>(call.samples_R[r]));
  bool has_finite = false;
  const int token = choose<Parts>(row, choice, uniform, bins, has_finite);
  Parts::synchronize();  // all have read samples_R and seen
  if (threadIdx.x != 0 || part != 0) return;
  call.ids_R[r] = token;
  if (call.found_R != nullptr) call.found_R[r] = has_finite ? token : -1;
  ++call.samples_R[r];
  if (seen != nullptr) seen[token] = 1;
  const std::int32_t longer = call.lengths_R[r] + 1;
  call.lengths_R[r] = longer < call.most_length ? longer : static_cast<std::int32_t>(call.most_length);
}

template <class T, int kBlocks>
void launch_sample(CudaStream stream, const SampleTokens& call, const Choice& choice) {
  const bool is_aligned = call.V % kPack<T> == 0 && aligned(call.logits_RV);
  launch_in_parts<kBlocks>(stream, sample_kernel<T, kBlocks>, call.R, kSampleThreads, call, choice, is_aligned);
}

}  // namespace

template <>
void sample_tokens(CudaStream stream, const SampleTokens& call) {
  if (call.R == 0) return;
  const Choice choice{static_cast<float>(call.temperature), static_cast<float>(call.top_p),
                      static_cast<float>(call.min_p), call.top_k};
  dispatch_float(call.dtype, [&]<class T>() {
    const bool cuts = call.V >= kCutRow && runs_new_code(stream, sample_kernel<T, kParts>);
    cuts ? launch_sample<T, kParts>(stream, call, choice) : launch_sample<T, 1>(stream, call, choice);
  });
  check_launch("sample_tokens");
}

}  // namespace lt::kernels
