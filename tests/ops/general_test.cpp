// Checks values, gradients and error messages of the general operations.
#include <limits>

#include "libtrain/error.h"
#include "ops/gradient_check.h"

using namespace lt;
using namespace lt_test;

namespace {
const std::vector<Shape> kShapes = {{1, 1}, {1, 7}, {3, 1}, {5, 7}, {4, 33}};
}

TEST_CASE("add and mul: gradients, with broadcasting in either argument", "[ops]") {
  const std::vector<std::pair<Shape, Shape>> pairs = {
      {{3, 5}, {3, 5}}, {{3, 5}, {5}}, {{5}, {3, 5}}, {{3, 1}, {1, 5}}, {{2, 3, 5}, {3, 1}}, {{1}, {4}}, {{}, {3}}};
  for (const auto& [a, b] : pairs) {
    check_gradient([](auto& x) { return ops::add(x[0], x[1]); }, {normal(a, 1), normal(b, 2)});
    check_gradient([](auto& x) { return ops::mul(x[0], x[1]); }, {normal(a, 1), normal(b, 2)});
  }
}

namespace {

// Values that differ from 0 and from each other by more than the steps of a gradient check.
Tensor apart(const Shape& shape, std::uint64_t key, double least) {
  std::vector<double> values = normal_values(shape.elements(), key);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::copysign(std::abs(values[i]) + least, values[i]) + 1e-3 * static_cast<double>(i);
  }
  return Tensor::from(values, shape);
}

Tensor positive(const Shape& shape, std::uint64_t key) {
  std::vector<double> values = normal_values(shape.elements(), key);
  for (double& value : values) value = std::abs(value) + 0.3;
  return Tensor::from(values, shape);
}

Tensor numbers(const std::vector<std::int32_t>& values, const Shape& shape) { return Tensor::from(values, shape); }

}  // namespace

TEST_CASE("div, maximum and where: gradients, with broadcasting in either argument", "[ops]") {
  const std::vector<std::pair<Shape, Shape>> pairs = {
      {{3, 5}, {3, 5}}, {{3, 5}, {5}}, {{5}, {3, 5}}, {{3, 1}, {1, 5}}, {{2, 3, 5}, {3, 1}}, {{1}, {4}}, {{}, {3}}};
  for (const auto& [a, b] : pairs) {
    check_gradient([](auto& x) { return ops::div(x[0], x[1]); }, {normal(a, 1), apart(b, 2, 0.5)});
    check_gradient([](auto& x) { return ops::maximum(x[0], x[1]); }, {apart(a, 1, 0.1), apart(b, 2, 0.2)});
    const Tensor condition = token_ids({5}, 2, 4);
    if (a.dims() > 0 && a[-1] == 5) {
      check_gradient([&](auto& x) { return ops::where(condition, x[0], x[1]); }, {normal(a, 1), normal(b, 2)});
    }
  }
  const Tensor a = Tensor::from(std::vector<double>{1, 2, 3}, {3}), b = Tensor::from(std::vector<double>{2, 2, 2}, {3});
  CHECK(ops::maximum(a, b).to_vector<double>() == std::vector<double>{2, 2, 3});
  CHECK(ops::div(a, b).to_vector<double>() == std::vector<double>{0.5, 1, 1.5});
  CHECK(ops::where(numbers({1, 0, -3}, {3}), a, b).to_vector<double>() == std::vector<double>{1, 2, 3});
  CHECK(ops::where(numbers({0, 1}, {2, 1}), a, b).to_vector<double>() == std::vector<double>{2, 2, 2, 1, 2, 3});
  // Equal elements share the gradient.
  Tensor left = Tensor::from(std::vector<double>{1, 2, 3}, {3}),
         right = Tensor::from(std::vector<double>{2, 2, 2}, {3});
  left.set_requires_grad(), right.set_requires_grad();
  Tape tape;
  const TapeScope recording(&tape);
  backward(tape, ops::sum(ops::maximum(left, right)));
  CHECK(left.gradient().to_vector<double>() == std::vector<double>{0, 0.5, 1});
  CHECK(right.gradient().to_vector<double>() == std::vector<double>{1, 0.5, 0});
}

TEST_CASE("functions of each element: gradients and values", "[ops]") {
  for (const Shape& shape : kShapes) {
    check_gradient([](auto& x) { return ops::exp(x[0]); }, {normal(shape, 1)});
    check_gradient([](auto& x) { return ops::log(x[0]); }, {positive(shape, 1)});
    check_gradient([](auto& x) { return ops::sqrt(x[0]); }, {positive(shape, 1)});
    check_gradient([](auto& x) { return ops::tanh(x[0]); }, {normal(shape, 1)});
    check_gradient([](auto& x) { return ops::relu(x[0]); }, {apart(shape, 1, 0.1)});
    check_gradient([](auto& x) { return ops::sigmoid(x[0]); }, {normal(shape, 1)});
  }
  const Tensor x = Tensor::from(std::vector<double>{-2, 0, 0.5}, {3});
  CHECK(ops::exp(x).to_vector<double>() == std::vector<double>{std::exp(-2.0), 1, std::exp(0.5)});
  CHECK(ops::relu(x).to_vector<double>() == std::vector<double>{0, 0, 0.5});
  CHECK(ops::sigmoid(Tensor::from(std::vector<double>{-1000, 0, 1000}, {3})).to_vector<double>() ==
        std::vector<double>{0, 0.5, 1});
}

TEST_CASE("stack: gradients, values and errors", "[ops]") {
  for (const int dim : {0, 1, 2, -1, -3}) {
    check_gradient(
        [&](auto& x) {
          return ops::stack({x[0], x[1], x[0]}, dim);
        },
        {normal({2, 3}, 1), normal({2, 3}, 2)});
  }
  check_gradient([](auto& x) { return ops::stack({x[0], x[1]}, 0); }, {normal({}, 1), normal({}, 2)});
  const Tensor a = Tensor::from(std::vector<double>{1, 2, 3}, {3}), b = Tensor::from(std::vector<double>{4, 5, 6}, {3});
  CHECK(ops::stack({a, b}, 0).shape() == Shape{2, 3});
  CHECK(ops::stack({a, b}, -1).shape() == Shape{3, 2});
  CHECK(ops::stack({a, b}, 1).to_vector<double>() == std::vector<double>{1, 4, 2, 5, 3, 6});
  CHECK_THROWS_WITH(ops::stack({}, 0), "stack: tensors: expected at least one, got none");
  CHECK_THROWS_WITH(ops::stack({a, ops::slice(b, 0, 0, 2)}, 0), "stack: tensors[1]: expected shape [3], got [2]");
  CHECK_THROWS_WITH(ops::stack({a, b}, 2), "stack: dim: expected a dimension of the result's 2, got 2");
  CHECK_THROWS_WITH(ops::stack({Tensor::zeros({1, 1, 1, 1, 1, 1}, DType::f32)}, 0),
                    "stack: tensors[0]: expected at most 5 dimensions, got [1, 1, 1, 1, 1, 1]");
}

TEST_CASE("concat, split, gather and cumulative_sum: gradients and values", "[ops]") {
  for (const int dim : {0, 1, -1}) {
    check_gradient(
        [&](auto& x) {
          return ops::concat({x[0], x[1], x[0]}, dim);
        },
        {normal({2, 3, 4}, 1), normal({2, 3, 4}, 2)});
    check_gradient([&](auto& x) { return ops::cumulative_sum(x[0], dim); }, {normal({2, 3, 4}, 1)});
  }
  check_gradient([](auto& x) { return ops::concat({x[0], x[1]}, 1); }, {normal({2, 3}, 1), normal({2, 1}, 2)});
  check_gradient(
      [](auto& x) {
        const std::vector<Tensor> parts = ops::split(x[0], {1, 0, 4}, 1);
        return ops::add(ops::sum(parts[0]), ops::sum(ops::mul(parts[2], parts[2])));
      },
      {normal({3, 5}, 1)});
  // Some elements are picked twice, some never.
  const Tensor rows = numbers({1, 1, 0, 1, 0, 0, 1, 1, 1}, {3, 3}), columns = numbers({2, 2, 0, 1}, {2, 2});
  check_gradient([&](auto& x) { return ops::gather(x[0], 0, rows); }, {normal({4, 3}, 1)});
  check_gradient([&](auto& x) { return ops::gather(x[0], -1, columns); }, {normal({2, 5}, 1)});
  const Tensor x = Tensor::from(std::vector<double>{1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(ops::gather(x, 1, columns).to_vector<double>() == std::vector<double>{3, 3, 4, 5});
  CHECK(ops::cumulative_sum(x, 1).to_vector<double>() == std::vector<double>{1, 3, 6, 4, 9, 15});
  CHECK_THROWS_WITH(ops::split(x, {4, -1}, 1), "split: sizes: expected at least 0 each, got -1");
  const Tensor long_condition = numbers({1, 0, 1, 0}, {4});
  CHECK_THROWS_WITH(ops::where(long_condition, x, x),
                    "where: condition: expected a shape that broadcasts with [2, 3], got [4]");
  CHECK(ops::concat({x, x}, 0).shape() == Shape{4, 3});
  CHECK(ops::split(x, {1, 2}, 1)[1].to_vector<double>() == std::vector<double>{2, 3, 5, 6});
}

// f16 ends at 65504: sums must not run in f16, although the result may be f16.
TEST_CASE("cast: rounded values, gradients in the input's dtype, and the hint where dtypes differ", "[ops]") {
  Tensor x = Tensor::from(std::vector<float>{1.0f, 1.00390625f, 3.14159265f}, {3});  // the second is halfway in bf16
  CHECK(ops::cast(x, DType::bf16).to_vector<double>() == std::vector<double>{1, 1, 3.140625});
  CHECK(ops::cast(x, DType::f32).data() == x.data());
  x.set_requires_grad();
  Tape tape;
  {
    const TapeScope recording(&tape);
    const Tensor factors = Tensor::from(std::vector<double>{2, 1.0 / 3, -5}, {3});
    const Tensor both = ops::add(ops::mul(ops::cast(x, DType::f64), factors), ops::cast(x, DType::f64));
    backward(tape, ops::sum(both));
  }
  CHECK(x.gradient().dtype() == DType::f32);
  CHECK(x.gradient().to_vector<float>() == std::vector<float>{3, 1.0f / 3 + 1, -4});
  CHECK_THROWS_WITH(ops::cast(x, DType::i32), "cast: dtype: expected f32, f64, bf16 or f16, got i32");
  try {
    ops::mul(x, Tensor::zeros({3}, DType::f64));
    FAIL("no error");
  } catch (const UsageError& error) {
    CHECK(error.what() == std::string("mul: b: expected f32, got f64"));
    CHECK(error.hint() == "ops::cast(b, DType::f32) converts it");
  }
  try {
    ops::mul(x, Tensor::zeros({3}, DType::bf16));  // as of a batch and a weight
    FAIL("no error");
  } catch (const UsageError& error) {
    CHECK(error.hint() ==
          "ops::cast(b, DType::f32) converts it; for a batch of f32 in a computation in bf16 convert the batch: "
          "ops::cast(batch, DType::bf16)");
  }
}

TEST_CASE("an input that is used twice receives both gradients", "[ops]") {
  check_gradient([](auto& x) { return ops::mul(x[0], x[0]); }, {normal({3, 5}, 1)});
  check_gradient([](auto& x) { return ops::add(x[0], ops::gelu(x[0])); }, {normal({3, 5}, 1)});
  check_gradient(
      [](auto& x) {
        const Tensor y = ops::scale(x[0], 2.0);
        return ops::add(ops::add(y, x[0]), ops::silu(y));
      },
      {normal({3, 5}, 1)});
}

TEST_CASE("elementwise operations: gradients", "[ops]") {
  for (const Shape& shape : kShapes) {
    check_gradient([](auto& x) { return ops::scale(x[0], -1.7); }, {normal(shape, 1)});
    check_gradient([](auto& x) { return ops::gelu(x[0]); }, {normal(shape, 1)});
    check_gradient([](auto& x) { return ops::silu(x[0]); }, {normal(shape, 1)});
    check_gradient([](auto& x) { return ops::softmax(x[0]); }, {normal(shape, 1)});
    check_gradient([](auto& x) { return ops::dropout(x[0], 0.3f, 17, 5); }, {normal(shape, 1)});
  }
}

TEST_CASE("matmul: gradients, shared and batched right factor", "[ops]") {
  for (const auto& [M, N, K] : {std::tuple<Size, Size, Size>{1, 1, 1}, {3, 5, 7}, {17, 1, 9}, {1, 6, 4}}) {
    check_gradient([](auto& x) { return ops::matmul(x[0], x[1]); }, {normal({M, K}, 1), normal({K, N}, 2)});
    check_gradient([](auto& x) { return ops::matmul(x[0], x[1]); }, {normal({2, M, K}, 1), normal({K, N}, 2)});
    check_gradient([](auto& x) { return ops::matmul(x[0], x[1]); }, {normal({2, 3, M, K}, 1), normal({2, 3, K, N}, 2)});
  }
}

TEST_CASE("reshape, transpose and slice: gradients", "[ops]") {
  check_gradient([](auto& x) { return ops::reshape(x[0], {5, 6}); }, {normal({3, 10}, 1)});
  check_gradient([](auto& x) { return ops::transpose(x[0], 0, 2); }, {normal({2, 3, 5}, 1)});
  check_gradient([](auto& x) { return ops::transpose(x[0], -1, -2); }, {normal({2, 3, 5}, 1)});
  check_gradient([](auto& x) { return ops::slice(x[0], 1, 2, 3); }, {normal({2, 7, 3}, 1)});
  check_gradient([](auto& x) { return ops::slice(x[0], -1, 0, 1); }, {normal({1, 4}, 1)});
}

TEST_CASE("sum and mean: gradients and values", "[ops]") {
  for (const int dim : {0, 1, 2, -1}) {
    check_gradient([&](auto& x) { return ops::sum(x[0], dim); }, {normal({2, 3, 5}, 1)});
    check_gradient([&](auto& x) { return ops::mean(x[0], dim); }, {normal({2, 3, 5}, 1)});
  }
  check_gradient([](auto& x) { return ops::sum(x[0]); }, {normal({3, 5}, 1)});
  const Tensor x = Tensor::from(std::vector<double>{1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(ops::sum(x, 0).to_vector<double>() == std::vector<double>{5, 7, 9});
  CHECK(ops::mean(x, 1).to_vector<double>() == std::vector<double>{2, 5});
  CHECK(ops::mean(x).item() == 3.5);
}

TEST_CASE("norms: gradients with respect to input, weight and bias", "[ops]") {
  // A row of one channel is constant: its normalised value is 0 and its gradient vanishes.
  for (const Shape& shape : {Shape{1, 7}, Shape{3, 2}, Shape{5, 33}, Shape{2, 3, 16}}) {
    const Size C = shape[-1];
    check_gradient([](auto& x) { return ops::layer_norm(x[0], x[1], x[2]); },
                   {normal(shape, 1), normal({C}, 2), normal({C}, 3)});
    check_gradient([](auto& x) { return ops::layer_norm(x[0], x[1], {}); }, {normal(shape, 1), normal({C}, 2)});
    check_gradient([](auto& x) { return ops::rms_norm(x[0], x[1]); }, {normal(shape, 1), normal({C}, 2)});
  }
  check_gradient([](auto& x) { return ops::rms_norm(x[0], x[1]); }, {normal({3, 1}, 1), normal({1}, 2)});
}

TEST_CASE("embedding: gradients, with ids that repeat and ids that do not occur", "[ops]") {
  for (const Shape& ids : {Shape{1}, Shape{9}, Shape{2, 5}}) {
    const Tensor tokens = token_ids(ids, 4, 7);
    check_gradient([&](auto& x) { return ops::embedding(x[0], tokens); }, {normal({6, 3}, 1)});
  }
}

TEST_CASE("cross_entropy: gradient and value", "[ops]") {
  for (const auto& [M, V] : {std::pair<Size, Size>{1, 1}, {1, 5}, {7, 3}, {6, 65}}) {
    const Tensor targets = token_ids({M}, V, 3);
    check_gradient([&](auto& x) { return ops::cross_entropy(x[0], targets); }, {normal({M, V}, 1)});
  }
  const Tensor flat = Tensor::zeros({4, 256}, DType::f64);
  CHECK(ops::cross_entropy(flat, token_ids({4}, 256, 1)).item() == Approx(std::log(256.0)).epsilon(1e-14));
}

TEST_CASE("losses ignore targets, and have a z-loss and label smoothing", "[ops]") {
  const Size M = 6, V = 5, C = 3;
  const Tensor targets =
      Tensor::from(std::vector<std::int32_t>{kIgnoredTarget, 2, 0, kIgnoredTarget, 4, kIgnoredTarget}, {M});
  const ops::LossOptions terms{.z_loss = 0.02, .label_smoothing = 0.3};
  // A class that is masked away has no share in the z-loss, and takes nothing from it.
  const auto masked = [](double logit) { return Tensor::from(std::vector<double>{1, 2, logit}, {1, 3}); };
  const Tensor target = Tensor::zeros({1}, DType::i32);
  CHECK(ops::cross_entropy(masked(-std::numeric_limits<double>::infinity()), target, {.z_loss = 0.02}).item() ==
        ops::cross_entropy(masked(-1e300), target, {.z_loss = 0.02}).item());
  check_gradient([&](auto& x) { return ops::cross_entropy(x[0], targets, terms); }, {normal({M, V}, 1)});
  check_gradient([&](auto& x) { return ops::head_cross_entropy(x[0], x[1], targets, terms); },
                 {normal({M, C}, 1), normal({V, C}, 2)});
  // The rows that count, alone.
  const Tensor x = normal({M, V}, 1), counted = Tensor::from(std::vector<std::int32_t>{2, 0, 4}, {3});
  const Tensor rows = ops::concat({ops::slice(x, 0, 1, 2), ops::slice(x, 0, 4, 1)}, 0);
  const double alone = ops::cross_entropy(rows, counted, terms).item();
  CHECK(ops::cross_entropy(x, targets, terms).item() == Approx(alone).epsilon(1e-7));  // the weight is f32
  const Tensor none = Tensor::from(std::vector<std::int32_t>{kIgnoredTarget, kIgnoredTarget}, {2});
  CHECK(ops::cross_entropy(ops::slice(x, 0, 0, 2), none, terms).item() == 0);
}

TEST_CASE("wrong arguments are named", "[ops]") {
  const auto message = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const Tensor a = Tensor::zeros({2, 3}, DType::f32), b = Tensor::zeros({4, 5}, DType::f32);
  CHECK(message([&] { ops::add(a, b); }) == "add: b: expected a shape that broadcasts with [2, 3], got [4, 5]");
  CHECK(message([&] { ops::matmul(a, b); }) == "matmul: b: expected shape [3, 5], got [4, 5]");
  CHECK(message([&] { ops::mul(a, Tensor::zeros({3}, DType::f64)); }) == "mul: b: expected f32, got f64");
  CHECK(message([&] { ops::gelu(Tensor()); }) == "gelu: x: expected a tensor, got none");
  CHECK(message([&] { ops::reshape(a, {7}); }) == "reshape: shape: expected 6 elements as in [2, 3], got [7]");
  CHECK(message([&] { ops::slice(a, 1, 2, 2); }) == "slice: range: expected within [0, 3), got 2 from 2 on");
  constexpr Size kMost = std::numeric_limits<Size>::max();
  CHECK_THROWS_AS(ops::slice(a, 1, kMost, 1), UsageError);
  CHECK_THROWS_AS(a.narrow(1, kMost, 1), UsageError);
  const Tensor integers = Tensor::zeros({1, 2}, DType::i32);
  CHECK_THROWS_AS(ops::embedding_with_positions(a, a, integers, kMost), UsageError);
  CHECK(message([&] { Tensor(integers).set_requires_grad(); }) ==
        "set_requires_grad: expected a floating dtype, got i32");
  CHECK(message([&] { ops::sum(a, 2); }) == "sum: dim: expected a dimension of shape [2, 3], got 2");
  CHECK(message([&] { ops::layer_norm(a, b, {}); }) == "layer_norm: weight: expected shape [3], got [4, 5]");
  CHECK(message([&] { ops::embedding(a, b); }) == "embedding: ids: expected i32, got f32");
  CHECK(message([&] { ops::linear(a, b); }) == "linear: weight: expected shape [N, 3], got [4, 5]");
  CHECK(message([&] { ops::attention(a, {2, 2, 4}); }) == "attention: qkv: expected shape [B, T, 24], got [2, 3]");
  CHECK(message([&] {
          ops::rope(Tensor::zeros({1, 2, 9}, DType::f32), {1, 1, 3}, 1e4);
        }) == "rope: head_dim: expected an even number, got 3");
  CHECK(message([&] { ops::dropout(a, 1.0f, 0); }) == "dropout: p: expected a number in [0, 1), got 1.000000");
  CHECK(message([&] { ops::div(a, b); }) == "div: b: expected a shape that broadcasts with [2, 3], got [4, 5]");
  CHECK(message([&] { ops::concat({}, 0); }) == "concat: tensors: expected at least one, got none");
  CHECK(message([&] { ops::concat({a, b}, 0); }) == "concat: tensors[1]: expected shape [4, 3], got [4, 5]");
  CHECK(message([&] { ops::split(a, {1, 1}, 1); }) == "split: sizes: expected a sum of 3, got 2");
  CHECK(message([&] {
          ops::gather(a, 0, token_ids({5, 2}, 2, 1));
        }) == "gather: index: expected shape [5, 3], got [5, 2]");
  CHECK(message([&] { ops::where(a, a, a); }) == "where: condition: expected i32, got f32");
  CHECK(message([&] { ops::swiglu(a); }) == "swiglu: x: expected an even last size [gate | up], got [2, 3]");
  CHECK(message([&] { ops::cross_entropy(a, token_ids({3}, 3, 1)); }) ==
        "cross_entropy: targets: expected one for each row of logits [2, 3], got [3]");
  const auto ids = [](const std::vector<std::int32_t>& values, const Shape& shape) {
    return Tensor::from(values, shape);
  };
  const Tensor wpe = Tensor::zeros({4, 3}, DType::f32);
  CHECK(message([&] {
          ops::embedding(a, ids({0, 1, 2}, {3}));
        }) == "embedding: ids: expected ids from 0 to 1, got 2 at position 2");
  CHECK(message([&] {
          ops::embedding_with_positions(a, wpe, ids({0, 1, 1, 0, -100, 9}, {2, 3}));
        }) == "embedding_with_positions: ids: expected ids from 0 to 1, got -100 at sample 1, position 1");
  CHECK(message([&] {
          ops::cross_entropy(a, ids({kIgnoredTarget, 3}, {2}));
        }) == "cross_entropy: targets: expected ids from 0 to 2, got 3 at position 1");
  CHECK(message([&] {
          ops::head_cross_entropy(a, wpe, ids({kIgnoredTarget, -1}, {2, 1}));
        }) == "head_cross_entropy: targets: expected ids from 0 to 3, got -1 at sample 1, position 0");
}

TEST_CASE("weights without elements are refused", "[ops]") {
  const Tensor none = Tensor::zeros({2, 0}, DType::f32), x = Tensor::zeros({2, 3}, DType::f32);
  CHECK_THROWS_WITH(ops::linear(none, none), "linear: weight: expected sizes of at least 1, got [2, 0]");
  CHECK_THROWS_WITH(ops::gelu_ffn(x, x, {}, Tensor::zeros({0, 2}, DType::f32), {}),
                    "gelu_ffn: down: expected sizes of at least 1, got [0, 2]");
  CHECK_THROWS_WITH(ops::head_cross_entropy(x, x, Tensor::zeros({2}, DType::i32)),
                    "head_cross_entropy: weight: expected a tensor other than x, got the same");
  CHECK_THROWS_WITH(ops::head_cross_entropy(x, Tensor::zeros({0, 3}, DType::f32), Tensor::zeros({2}, DType::i32)),
                    "head_cross_entropy: weight: expected sizes of at least 1, got [0, 3]");
}

TEST_CASE("operations refuse one tensor where one kernel writes two gradients", "[ops]") {
  const Tensor x = Tensor::zeros({2, 4}, DType::f32), w = Tensor::zeros({4}, DType::f32);
  CHECK_THROWS_WITH(ops::rms_norm(w, w), "rms_norm: weight: expected a tensor other than x, got the same");
  CHECK_THROWS_WITH(ops::layer_norm(x, w, w), "layer_norm: bias: expected a tensor other than weight, got the same");
  CHECK_THROWS_WITH(ops::qk_norm(Tensor::zeros({1, 2, 12}, DType::f32), {1, 1, 4}, w, w),
                    "qk_norm: k_weight: expected a tensor other than q_weight, got the same");
  CHECK_THROWS_WITH(ops::embedding_with_positions(x, x, Tensor::zeros({1, 2}, DType::i32)),
                    "embedding_with_positions: wpe: expected a tensor other than wte, got the same");
}

TEST_CASE("on meta, operations compute shapes and allocate, and run nothing", "[ops]") {
  const Tensor x = Tensor::empty({2, 3, 8}, DType::f32, kMeta), w = Tensor::empty({5, 8}, DType::f32, kMeta);
  CHECK(ops::linear(x, w).shape() == Shape{2, 3, 5});
  CHECK(ops::softmax(ops::gelu(x)).shape() == Shape{2, 3, 8});
  CHECK(ops::transpose(x, 1, 2).shape() == Shape{2, 8, 3});
  CHECK(ops::sum(x, 1).device() == kMeta);
}
