// Attention and positions: gradients, and values compared with the definition.
#include <algorithm>
#include <cmath>
#include <vector>

#include "libtrain/error.h"
#include "ops/gradient_check.h"

using namespace lt;
using namespace lt_test;

namespace {

// Attention by definition: the T x T matrix, a mask, softmax.
Tensor naive_attention(const Tensor& qkv, const ops::Heads& heads, Size window = 0) {
  const Size B = qkv.dim(0), T = qkv.dim(1), D = heads.head_dim;
  const auto x = qkv.to_vector<double>();
  std::vector<double> out(static_cast<std::size_t>(B * T * heads.heads * D), 0.0);
  const auto at = [&](Size b, Size t, Size column) {
    return x[static_cast<std::size_t>((b * T + t) * heads.row() + column)];
  };
  for (Size b = 0; b < B; ++b) {
    for (Size h = 0; h < heads.heads; ++h) {
      const Size g = h * heads.kv_heads / heads.heads;
      for (Size t = 0; t < T; ++t) {
        std::vector<double> weight(static_cast<std::size_t>(t + 1));
        double total = 0;
        const Size first = window > 0 ? std::max(t - window + 1, Size{0}) : 0;
        for (Size s = first; s <= t; ++s) {
          double dot = 0;
          for (Size d = 0; d < D; ++d) dot += at(b, t, h * D + d) * at(b, s, (heads.heads + g) * D + d);
          total += weight[static_cast<std::size_t>(s)] = std::exp(dot / std::sqrt(static_cast<double>(D)));
        }
        for (Size s = 0; s <= t; ++s) {
          for (Size d = 0; d < D; ++d) {
            out[static_cast<std::size_t>((b * T + t) * heads.heads * D + h * D + d)] +=
                weight[static_cast<std::size_t>(s)] / total * at(b, s, (heads.heads + heads.kv_heads + g) * D + d);
          }
        }
      }
    }
  }
  return Tensor::from(out, {B, T, heads.heads * D});
}

}  // namespace

TEST_CASE("attention: a window hides what lies before it", "[ops]") {
  const ops::Heads heads{4, 2, 6};
  const Tensor qkv = normal({2, 9, heads.row()}, 1);
  check_gradient([&](auto& t) { return ops::attention(t[0], heads, 3); }, {qkv});
  for (const Size window : {1, 3, 8, 9, 100}) {
    check_equal(ops::attention(qkv, heads, window), naive_attention(qkv, heads, window), 1e-12);
  }
  CHECK_THROWS_WITH(ops::attention(qkv, heads, -1), "attention: window: expected at least 0, got -1");
}

TEST_CASE("documents: attention, rope and positions are those of each document alone, with gradients", "[ops]") {
  const ops::Heads heads{4, 2, 6};
  const Tensor starts = Tensor::from(std::vector<std::int32_t>{0, 0, 0, 3, 4, 4, 4, 4, 4}, {1, 9});
  const Tensor qkv = normal({1, 9, heads.row()}, 1), wte = normal({5, 3}, 1), wpe = normal({9, 3}, 2);
  const Tensor ids = token_ids({1, 9}, 5, 7);
  for (const Size window : {0, 2}) {
    check_gradient([&](auto& t) { return ops::attention(t[0], heads, window, starts); }, {qkv});
    const Tensor packed = ops::attention(qkv, heads, window, starts);
    const Tensor turned = ops::rope(qkv, heads, 1e4, 0, {}, starts);
    const Tensor embedded = ops::embedding_with_positions(wte, wpe, ids, 0, starts);
    for (const auto& [begin, count] : {std::pair<Size, Size>{0, 3}, {3, 1}, {4, 5}}) {
      const auto part = [&begin = begin, &count = count](const Tensor& whole) {
        return ops::slice(whole, 1, begin, count);
      };
      check_equal(part(packed), naive_attention(part(qkv), heads, window), 1e-12);
      check_equal(part(turned), ops::rope(part(qkv), heads, 1e4), 1e-15);
      check_equal(part(embedded), ops::embedding_with_positions(wte, wpe, ids.narrow(1, begin, count)), 1e-15);
    }
  }
  check_gradient([&](auto& t) { return ops::rope(t[0], heads, 1e4, 0, {}, starts); }, {qkv});
  check_gradient([&](auto& t) { return ops::embedding_with_positions(t[0], t[1], ids, 0, starts); }, {wte, wpe});
  CHECK_THROWS_WITH(ops::attention(qkv, heads, 0, starts.narrow(1, 0, 8)),
                    "attention: document_starts: expected shape [1, 9], got [1, 8]");
  CHECK_THROWS_WITH(ops::rope(qkv, heads, 1e4, -1), "rope: first: expected at least 0, got -1");
  CHECK_THROWS_WITH(ops::rope(qkv, heads, 1e4, 1, {}, starts), "rope: first: expected 0 with document_starts, got 1");
  CHECK_THROWS_WITH(ops::embedding_with_positions(wte, wpe, ids, 0, qkv),
                    "embedding_with_positions: document_starts: expected i32, got f64");
}

TEST_CASE("attention: gradients and values, grouped heads, odd lengths", "[ops]") {
  struct Case {
    Size B, T;
    ops::Heads heads;
  };
  for (const auto& [B, T, heads] : {Case{1, 1, {1, 1, 1}}, {2, 5, {2, 2, 3}}, {1, 9, {4, 2, 4}}, {1, 3, {6, 2, 5}}}) {
    const Tensor qkv = normal({B, T, heads.row()}, 1);
    check_equal(ops::attention(qkv, heads), naive_attention(qkv, heads), 1e-12);
    check_gradient([&heads = heads](auto& x) { return ops::attention(x[0], heads); }, {qkv});
  }
  // More than one block.
  const ops::Heads heads{2, 1, 8};
  const Tensor qkv = normal({1, 150, heads.row()}, 1);
  check_equal(ops::attention(qkv, heads), naive_attention(qkv, heads), 1e-12);
}

TEST_CASE("attention_cached refuses a cache that does not fit", "[ops]") {
  const ops::Heads heads{2, 1, 4};
  const Tensor qkv = Tensor::zeros({1, 2, heads.row()}, DType::f32), room = Tensor::zeros({1, 8, 4}, DType::f32);
  const auto refusal = [&](ops::KvCache cache) -> std::string {
    try {
      ops::attention_cached(qkv, heads, cache);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "none";
  };
  CHECK(refusal({{}, room, 0, {}}) == "attention_cached: cache.k: expected a tensor, got none");
  CHECK(refusal({Tensor::zeros({1, 8, 4}, DType::bf16), room, 0, {}}) ==
        "attention_cached: cache.k: expected f32, got bf16");
  CHECK(refusal({room, Tensor::zeros({1, 7, 4}, DType::f32), 0, {}}) ==
        "attention_cached: cache.v: expected shape [1, 8, 4], got [1, 7, 4]");
  CHECK(refusal({Tensor::zeros({1, 8, 5}, DType::f32), room, 0, {}}) ==
        "attention_cached: cache.k: expected shape [1, 8, 4], got [1, 8, 5]");
}

TEST_CASE("attention_cached gives what attention gives, token by token or in parts", "[ops]") {
  const ops::Heads heads{4, 2, 6};
  const Size T = 11, kv = heads.kv_heads * heads.head_dim;
  const Tensor qkv = normal({2, T, heads.row()}, 1);
  for (const double base : {0.0, 100.0}) {
    const Tensor expected = ops::attention(base > 0 ? ops::rope(qkv, heads, base) : qkv, heads);
    for (const std::vector<Size>& parts : {std::vector<Size>(11, 1), {11}, {3, 1, 1, 6}}) {
      ops::KvCache cache{Tensor::zeros({2, 16, kv}, DType::f64), Tensor::zeros({2, 16, kv}, DType::f64), 0, {}};
      for (const Size count : parts) {
        const Tensor part = ops::slice(qkv, 1, cache.length, count), before = ops::scale(part, 1);
        check_equal(ops::attention_cached(part, heads, cache, 0, base), ops::slice(expected, 1, cache.length, count),
                    1e-12);
        check_equal(part, before, 0);  // only a temporary is rotated in place
        cache.length += count;
      }
    }
  }
}

TEST_CASE("attention_cached: each sequence has its own length", "[ops]") {
  const ops::Heads heads{2, 1, 6};
  const Tensor qkv = normal({2, 9, heads.row()}, 1), expected = ops::attention(ops::rope(qkv, heads, 100), heads);
  ops::KvCache cache{Tensor::zeros({2, 9, 6}, DType::f64), Tensor::zeros({2, 9, 6}, DType::f64), 0, {}};
  const std::vector<std::int32_t> lengths{3, 8};
  const auto rows = [](const Tensor& x, Size b, Size begin, Size count) {
    return x.narrow(0, b, 1).narrow(1, begin, count);
  };
  const Tensor last = Tensor::empty({2, 1, heads.row()}, DType::f64);
  for (Size b = 0; b < 2; ++b) {
    const Size length = lengths[static_cast<std::size_t>(b)];
    ops::KvCache own{cache.k.narrow(0, b, 1), cache.v.narrow(0, b, 1), 0, {}};
    const Tensor prompt = Tensor::empty({1, length, heads.row()}, DType::f64);
    copy(prompt, rows(qkv, b, 0, length));
    ops::attention_cached(prompt, heads, own, 0, 100);
    copy(rows(last, b, 0, 1), rows(qkv, b, length, 1));
  }
  cache.length = 8, cache.lengths = Tensor::from(lengths, {2});
  const Tensor found = ops::attention_cached(last, heads, cache, 0, 100);
  for (Size b = 0; b < 2; ++b) {
    const Tensor row = Tensor::empty({1, 1, 12}, DType::f64);
    copy(row, rows(expected, b, lengths[static_cast<std::size_t>(b)], 1));
    check_equal(ops::slice(found, 0, b, 1), row, 1e-12);
  }
}

TEST_CASE("embedding_with_positions: gradients of both tables", "[ops]") {
  const Tensor ids = token_ids({3, 4}, 5, 7);
  for (const Size first : {0, 2}) {
    check_gradient([&](auto& x) { return ops::embedding_with_positions(x[0], x[1], ids, first); },
                   {normal({5, 3}, 1), normal({6, 3}, 2)});
  }
}
