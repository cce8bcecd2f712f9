// Gradients of the fused operations, and their values against the same computation with general operations.
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "ops/gradient_check.h"
#include "ops/loss_pass.h"
#include "test_main/worst_of.h"

using namespace lt;
using namespace lt_test;

TEST_CASE("linear: gradients with bias and residual", "[ops]") {
  for (const auto& [M, N, K] : {std::tuple<Size, Size, Size>{1, 1, 1}, {3, 5, 7}, {9, 17, 4}}) {
    const Tensor x = normal({M, K}, 1), w = normal({N, K}, 2), b = normal({N}, 3), r = normal({M, N}, 4);
    check_gradient([](auto& t) { return ops::linear(t[0], t[1]); }, {x, w});
    check_gradient([](auto& t) { return ops::linear(t[0], t[1], t[2]); }, {x, w, b});
    check_gradient([](auto& t) { return ops::linear(t[0], t[1], t[2], t[3]); }, {x, w, b, r});
  }
  check_gradient([](auto& t) { return ops::linear(t[0], t[1]); }, {normal({2, 3, 5}, 1), normal({4, 5}, 2)});
}

TEST_CASE("linear equals matmul and add", "[ops]") {
  const Tensor x = normal({4, 6}, 1), w = normal({5, 6}, 2), b = normal({5}, 3), r = normal({4, 5}, 4);
  const Tensor matmul = ops::add(ops::matmul(x, ops::transpose(w, 0, 1)), b);
  check_equal(ops::linear(x, w, b), matmul, 1e-12);
  check_equal(ops::linear(x, w, b, r), ops::add(matmul, r), 1e-12);
}

TEST_CASE("adapted_linear: gradients, and values of what it is made of", "[ops]") {
  struct Sizes {
    Size M, N, K, rank;
    std::vector<ops::RowRange> ranges;
  };
  for (const auto& [M, N, K, rank, ranges] : {Sizes{1, 1, 1, 1, {{0, 1}}},
                                              {3, 5, 7, 2, {{0, 5}}},
                                              {4, 9, 5, 3, {{0, 4}, {6, 3}}},
                                              {2, 6, 3, 4, {{0, 2}, {2, 2}, {4, 2}}}}) {
    const ops::LowRank adapter{1.0 / 3, ranges};  // not a number of f32
    const Size count = static_cast<Size>(ranges.size());
    Size rows = 0;
    for (const ops::RowRange& range : ranges) rows += range.size;
    const Tensor x = normal({M, K}, 1), w = normal({N, K}, 2), bias = normal({N}, 3), residual = normal({M, N}, 4),
                 a = normal({count * rank, K}, 5), b = normal({rows, rank}, 6);
    check_gradient([&](auto& t) { return ops::adapted_linear(t[0], t[1], t[2], t[3], t[4], t[5], adapter); },
                   {x, w, bias, residual, a, b});
    // The base without gradients, as in a run that trains adapters alone.
    check_gradient([&](auto& t) { return ops::adapted_linear(x, w, {}, {}, t[0], t[1], adapter); }, {a, b});
    std::vector<Tensor> columns;
    Size column = 0, row = 0, block = 0;
    const auto pad = [&, rows_of_x = M](Size to) {
      if (to > column) columns.push_back(Tensor::zeros({rows_of_x, to - column}, DType::f64));
    };
    for (const ops::RowRange& range : ranges) {
      pad(range.begin);
      const Tensor inner = ops::linear(x, ops::slice(a, 0, block++ * rank, rank));
      columns.push_back(ops::scale(ops::linear(inner, ops::slice(b, 0, row, range.size)), adapter.scale));
      row += range.size, column = range.begin + range.size;
    }
    pad(N);
    check_equal(ops::adapted_linear(x, w, bias, residual, a, b, adapter),
                ops::add(ops::linear(x, w, bias, residual), ops::concat(columns, 1)), 1e-12);
  }
  const Tensor x = normal({2, 3}, 1), w = normal({4, 3}, 2), a = normal({4, 3}, 3), b = normal({3, 2}, 4);
  CHECK_THROWS_WITH(ops::adapted_linear(x, w, {}, {}, a, b, {1, {{2, 1}, {0, 2}}}),
                    "adapted_linear: ranges: expected ascending rows of [0, 4), got [0, 2)");
  CHECK_THROWS_WITH(ops::adapted_linear(x, w, {}, {}, a, b, {1, {{0, 2}, {2, 2}}}),
                    "adapted_linear: b: expected shape [4, 2], got [3, 2]");
}

TEST_CASE("gelu_ffn: gradients, and values of what it is made of", "[ops]") {
  for (const auto& [M, C, F] : {std::tuple<Size, Size, Size>{1, 1, 1}, {3, 5, 7}, {9, 4, 17}}) {
    const Tensor x = normal({M, C}, 1), up = normal({F, C}, 2), up_bias = normal({F}, 3), down = normal({C, F}, 4),
                 down_bias = normal({C}, 5), residual = normal({M, C}, 6);
    check_gradient([](auto& t) { return ops::gelu_ffn(t[0], t[1], {}, t[2], {}); }, {x, up, down});
    check_gradient([](auto& t) { return ops::gelu_ffn(t[0], t[1], t[2], t[3], t[4], t[5]); },
                   {x, up, up_bias, down, down_bias, residual});
    const Tensor expected = ops::linear(ops::gelu(ops::linear(x, up, up_bias)), down, down_bias, residual);
    check_equal(ops::gelu_ffn(x, up, up_bias, down, down_bias, residual), expected, 1e-12);
  }
}

TEST_CASE("linear and gelu_ffn in two bytes: gradients of leaves in f32, of computed biases in their own type",
          "[ops]") {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto in = [&](Tensor value) {
      Tensor rounded = Tensor::empty(value.shape(), dtype);
      copy(rounded, value);
      rounded.set_requires_grad();
      return rounded;
    };
    const auto gradients = [&](bool computed) {
      std::vector<Tensor> t = {in(normal({8, 16}, 1)), in(normal({24, 16}, 2)), in(normal({24}, 3)),
                               in(normal({16, 24}, 4)), in(normal({16}, 5))};
      Tape tape;
      const TapeScope recording(&tape);
      const auto bias = [&](const Tensor& b) { return computed ? ops::scale(b, 1) : b; };
      const Tensor h = ops::linear(t[0], t[1], bias(t[2]));
      const Tensor y = ops::gelu_ffn(ops::linear(h, t[3]), t[1], bias(t[2]), t[3], bias(t[4]));
      backward(tape, ops::sum(y));
      std::vector<double> all;
      for (const Tensor& tensor : t) {
        CHECK(tensor.gradient().dtype() == DType::f32);
        for (const double value : tensor.gradient().to_vector<double>()) all.push_back(value);
      }
      return all;
    };
    const std::vector<double> leaves = gradients(false), computed = gradients(true);
    double worst = 0;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      worst = worst_of(worst, std::fabs(computed[i] - leaves[i]) / (1 + std::fabs(leaves[i])));
    }
    // Each of the two contributions to a computed bias is rounded before they are added.
    CHECK(worst < (dtype == DType::bf16 ? 8e-2 : 1e-2));
  }
}

TEST_CASE("gelu_ffn: what does not fit is refused", "[ops]") {
  const Tensor x = normal({2, 3}, 1), up = normal({4, 3}, 2), down = normal({3, 4}, 3);
  CHECK_THROWS_WITH(ops::gelu_ffn(x, up, {}, up, {}), "gelu_ffn: down: expected shape [N, 4], got [4, 3]");
  CHECK_THROWS_WITH(ops::gelu_ffn(x, down, {}, down, {}), "gelu_ffn: up: expected shape [N, 3], got [3, 4]");
}

TEST_CASE("swiglu and rope: gradients and values", "[ops]") {
  for (const Shape& shape : {Shape{1, 2}, Shape{3, 10}, Shape{2, 3, 34}}) {
    check_gradient([](auto& x) { return ops::swiglu(x[0]); }, {normal(shape, 1)});
  }
  const Tensor x = normal({3, 10}, 1);
  check_equal(ops::swiglu(x), ops::mul(ops::silu(ops::slice(x, 1, 0, 5)), ops::slice(x, 1, 5, 5)), 1e-12);

  const ops::Heads heads{3, 1, 4};
  check_gradient([&](auto& t) { return ops::rope(t[0], heads, 1e4, 2); }, {normal({2, 5, heads.row()}, 1)});
  // Rotations keep lengths; values are not rotated; position 0 is the identity.
  const Tensor qkv = normal({1, 3, heads.row()}, 5), rotated = ops::rope(qkv, heads, 1e4);
  check_equal(rotated.narrow(1, 0, 1), qkv.narrow(1, 0, 1), 0);
  const auto a = qkv.to_vector<double>(), b = rotated.to_vector<double>();
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t d = 0; d < 2; ++d) {
      const std::size_t i = row * 20 + d;
      CHECK(std::hypot(a[i], a[i + 2]) == Approx(std::hypot(b[i], b[i + 2])).epsilon(1e-12));
    }
    for (std::size_t d = 16; d < 20; ++d) CHECK(a[row * 20 + d] == b[row * 20 + d]);
  }
}

TEST_CASE("rms_norm_linear and rms_norm_swiglu: gradients, values of the separate operations, and refusals", "[ops]") {
  const Tensor x = normal({3, 8}, 1), norm = normal({8}, 2), weight = normal({6, 8}, 3), bias = normal({6}, 4);
  check_gradient([](auto& t) { return ops::rms_norm_linear(t[0], t[1], 1e-3f, t[2], t[3]); }, {x, norm, weight, bias});
  check_gradient([](auto& t) { return ops::rms_norm_swiglu(t[0], t[1], 1e-3f, t[2]); }, {x, norm, weight});
  const Tensor normed = ops::rms_norm(x, norm, 1e-3f);
  check_equal(ops::rms_norm_linear(x, norm, 1e-3f, weight, bias), ops::linear(normed, weight, bias), 0);
  check_equal(ops::rms_norm_swiglu(x, norm, 1e-3f, weight), ops::swiglu(ops::linear(normed, weight)), 0);
  CHECK_THROWS_WITH(ops::rms_norm_linear(x, bias, 1e-3f, weight),
                    "rms_norm_linear: norm_weight: expected shape [8], got [6]");
  CHECK_THROWS_WITH(ops::rms_norm_swiglu(x, norm, 1e-3f, normal({5, 8}, 3)),
                    "swiglu: x: expected an even last size [gate | up], got [3, 5]");
}

TEST_CASE("qk_norm: gradients, and values beside rms_norm", "[ops]") {
  const ops::Heads heads{4, 2, 6};
  const Tensor qkv = normal({2, 3, heads.row()}, 1), wq = normal({6}, 2), wk = normal({6}, 3);
  check_gradient([&](auto& t) { return ops::qk_norm(t[0], heads, t[1], t[2]); }, {qkv, wq, wk});
  const Tensor y = ops::qk_norm(qkv, heads, wq, wk, 1e-3f);
  for (Size h = 0; h < 8; ++h) {
    const Tensor head = ops::slice(qkv, 2, 6 * h, 6);
    const Tensor expected = h < 6 ? ops::rms_norm(head, h < 4 ? wq : wk, 1e-3f) : head;
    check_equal(ops::slice(y, 2, 6 * h, 6), expected, 1e-12);
  }
  CHECK_THROWS_WITH(ops::qk_norm(qkv, heads, normal({5}, 4), wk), "qk_norm: q_weight: expected shape [6], got [5]");
  CHECK_THROWS_WITH(ops::qk_norm(qkv, {3, 2, 6}, wq, wk), "qk_norm: heads: expected a multiple of kv_heads 2, got 3");
}

TEST_CASE("in place: only where nobody else holds the values", "[ops]") {
  const ops::Heads heads{2, 1, 4};
  const Tensor qkv = normal({1, 3, heads.row()}, 1);
  const std::vector<double> before = qkv.to_vector<double>();
  const Tensor rotated = ops::rope(qkv, heads, 1e4);
  CHECK(qkv.to_vector<double>() == before);
  Tensor temporary = normal({1, 3, heads.row()}, 1);
  const void* const storage = temporary.data();
  const Tensor in_place = ops::rope(std::move(temporary), heads, 1e4);
  CHECK(in_place.data() == storage);
  CHECK(in_place.to_vector<double>() == rotated.to_vector<double>());

  // The gradient of an activation takes its input's storage, unless that is still in use.
  std::vector<std::vector<double>> gradients;
  for (const bool hold : {false, true}) {
    Tensor x = normal({3, 4}, 2), w = normal({6, 4}, 3);
    x.set_requires_grad();
    Tape tape;
    const TapeScope scope(&tape);
    Tensor held;
    Tensor y = ops::linear(x, w);
    if (hold) held = y;
    const std::vector<double> values = y.to_vector<double>();
    y = ops::sum(ops::swiglu(std::move(y)));
    backward(tape, y);
    if (hold) CHECK(held.to_vector<double>() == values);
    gradients.push_back(x.gradient().to_vector<double>());
  }
  CHECK(gradients[0] == gradients[1]);
}

TEST_CASE("head_cross_entropy: the f32 gradients of bf16 leaves, computed ahead or in backward", "[ops]") {
  const Tensor targets = Tensor::from(std::vector<std::int32_t>{1, 0, 4}, {3});
  const auto gradient_of_x = [&](DType dtype, const std::optional<LossGradient>& seed) {
    const Tensor x = Tensor::empty({3, 6}, dtype), w = Tensor::empty({5, 6}, dtype);
    copy(x, normal({3, 6}, 1)), copy(w, normal({5, 6}, 2));
    Tensor leaf = x;
    leaf.set_requires_grad();
    Tape tape;
    {
      const TapeScope recording(&tape);
      ops::LossPass pass{.gradient = seed};
      const Tensor loss = ops::head_cross_entropy(leaf, w, targets, {.pass = &pass});
      backward(tape, loss, LossGradient{1, {}});
    }
    const Tensor gradient = Tensor::empty(x.shape(), DType::f64);
    copy(gradient, leaf.gradient());
    return gradient;
  };
  const Tensor expected = gradient_of_x(DType::f32, std::nullopt);
  // bf16 rounds logits of about 4 by 2^-7, and so their gradients of at most 1/3 by as much of themselves.
  check_equal(gradient_of_x(DType::bf16, std::nullopt), expected, 1e-2);
  check_equal(gradient_of_x(DType::bf16, LossGradient{1, {}}), expected, 1e-2);
}

TEST_CASE("head_cross_entropy: equals linear and cross_entropy, in value and gradient, in chunks too", "[ops]") {
  for (const auto& [M, V, C] : {std::tuple<Size, Size, Size>{1, 1, 1}, {5, 7, 3}, {2, 3, 4}}) {
    const Tensor targets = token_ids({M}, V, 3);
    check_gradient([&](auto& x) { return ops::head_cross_entropy(x[0], x[1], targets); },
                   {normal({M, C}, 1), normal({V, C}, 2)});
  }
  // 1000 rows of 600 logits are four chunks.
  const Size M = 1000, V = 600, C = 3;
  const Tensor targets = token_ids({M}, V, 3);
  const auto gradients = [&](const std::function<Tensor(const Tensor&, const Tensor&)>& loss_of) {
    Tensor x = normal({M, C}, 1), w = normal({V, C}, 2);
    x.set_requires_grad(), w.set_requires_grad();
    Tape tape;
    const TapeScope recording(&tape);
    const Tensor loss = loss_of(x, w);
    backward(tape, loss, 0.25);
    return std::tuple{loss, x.gradient(), w.gradient()};
  };
  const auto [loss, dx, dw] =
      gradients([&](auto& x, auto& w) { return ops::cross_entropy(ops::linear(x, w), targets); });
  for (const std::optional<double> seed : {std::optional<double>(), std::optional<double>(0.25)}) {
    ops::LossPass pass{.gradient = seed};
    const auto [loss2, dx2, dw2] =
        gradients([&](auto& x, auto& w) { return ops::head_cross_entropy(x, w, targets, {.pass = &pass}); });
    check_equal(loss2, loss, 1e-12);
    check_equal(dx2, dx, 1e-14);
    check_equal(dw2, dw, 1e-14);
  }
}

TEST_CASE("selective recomputation drops cheap outputs and gives the same gradients", "[ops]") {
  const auto gradient = [](bool keep_values, Size* live_after_forward) {
    Tensor x = normal({16, 8}, 1), w = normal({8, 8}, 2), g = normal({8}, 3);
    x.set_requires_grad(), w.set_requires_grad(), g.set_requires_grad();
    Tape tape(keep_values);
    const TapeScope recording(&tape);
    const Size before = memory_live(kCpu).total;
    Tensor loss;
    {
      const Tensor h = ops::gelu(ops::linear(ops::rms_norm(x, g), w));
      loss = ops::sum(ops::matmul(ops::silu(ops::gelu_ffn(h, w, {}, w, {})), w));
    }
    tape.release_values({loss});
    *live_after_forward = memory_live(kCpu).total - before;
    backward(tape, loss);
    return std::tuple{x.gradient().to_vector<double>(), w.gradient().to_vector<double>(),
                      g.gradient().to_vector<double>()};
  };
  Size kept = 0, dropped = 0;
  const auto expected = gradient(true, &kept), actual = gradient(false, &dropped);
  CHECK(expected == actual);
  // The outputs of rms_norm, gelu and silu, and gelu_ffn's state after GELU: four tensors of 16 x 8 doubles.
  CHECK(kept - dropped == 4 * 16 * 8 * 8);
}
