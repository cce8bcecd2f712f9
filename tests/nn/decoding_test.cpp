// Generation with a cache gives the same logits as a whole forward pass, however the tokens are split.
#include "libtrain/error.h"
#include "nn/passes.h"
#include "test_main/catch.h"
#include "test_main/worst_of.h"

using namespace lt;
using namespace lt_test;

namespace {

double worst_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = worst_of(worst, std::abs(x[i] - y[i]));
  return worst;
}

// Logits are about 0.3: sums of at most 352 products, in another order.
double tolerance(DType dtype) { return dtype == DType::f64 ? 1e-14 : 2e-6; }

}  // namespace

TEST_CASE("logits with a cache equal those of the whole sequence", "[nn]") {
  constexpr Size kTokens = 16;
  std::vector<nn::TransformerSpec> specs{nn::preset("gpt-tiny"), nn::preset("llama-tiny")};
  for (const std::string& family : family_names()) specs.push_back(two_blocks(family));
  for (nn::TransformerSpec& spec : specs) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      spec.layers = 2, spec.max_seq = 256;
      const auto model = model_of(spec, dtype);
      const Tensor tokens = tokens_of(0, 2, kTokens, spec.vocab).inputs;
      const auto range = [&](Size begin, Size length) {
        const Tensor part = Tensor::empty({2, length}, DType::i32);
        copy(part, tokens.narrow(1, begin, length));
        return part;
      };
      const Tensor whole = model->logits(tokens);
      CHECK(whole.shape() == Shape{2, kTokens, spec.vocab});
      for (const std::vector<Size>& parts :
           {std::vector<Size>{16}, {7, 9}, {1, 15}, {15, 1}, {3, 1, 1, 8, 3}, std::vector<Size>(16, 1)}) {
        nn::DecodeState state = model->decode_state(2, kTokens);
        Size done = 0;
        for (const Size length : parts) {
          const Tensor last = model->logits(range(done, length), &state);
          done += length;
          INFO(spec.family << " " << dtype_name(dtype) << ", " << parts.size() << " parts, after " << done);
          CHECK(state.length == done);
          CHECK(last.shape() == Shape{2, 1, spec.vocab});
          CHECK(worst_difference(last, whole.narrow(1, done - 1, 1)) < tolerance(dtype));
        }
      }
    }
  }
}

TEST_CASE("what comes later does not change a token's logits", "[nn]") {
  for (const std::string& family : family_names()) {
    const auto model = model_of(two_blocks(family), DType::f64);
    const Tensor a = tokens_of(0, 1, 12, 29).inputs, b = tokens_of(0, 1, 12, 29).inputs;
    b.data<std::int32_t>()[7] = (b.data<std::int32_t>()[7] + 1) % 29;
    const Tensor x = model->logits(a), y = model->logits(b);
    CHECK(worst_difference(x.narrow(1, 0, 7), y.narrow(1, 0, 7)) == 0);
    CHECK(worst_difference(x.narrow(1, 7, 1), y.narrow(1, 7, 1)) > 1e-3);
    CHECK(worst_difference(x.narrow(1, 8, 4), y.narrow(1, 8, 4)) > 1e-6);
  }
}

TEST_CASE("the loss is the mean cross-entropy of the logits", "[nn]") {
  for (const std::string& family : family_names()) {
    const auto model = model_of(two_blocks(family), DType::f64);
    const Batch batch = tokens_of(0, 3, 12, 29);
    CHECK(model->loss(batch).item() ==
          Approx(ops::cross_entropy(model->logits(batch.inputs), batch.targets).item()).epsilon(1e-14));
  }
}

TEST_CASE("no more tokens than max_seq and than the cache has room for", "[nn]") {
  for (const std::string& family : family_names()) {
    const auto model = model_of(two_blocks(family), DType::f32);
    CHECK_NOTHROW(model->loss(tokens_of(0, 1, 12, 29)));
    CHECK_THROWS_WITH(model->loss(tokens_of(0, 1, 13, 29)), "sequence: expected at most max_seq 12 tokens, got 13");
    nn::DecodeState state = model->decode_state(1, 12);
    model->logits(tokens_of(0, 1, 10, 29).inputs, &state);
    CHECK_THROWS_AS(model->logits(tokens_of(0, 1, 3, 29).inputs, &state), UsageError);
    nn::DecodeState none;
    CHECK_THROWS_AS(model->logits(tokens_of(0, 1, 1, 29).inputs, &none), UsageError);
    nn::DecodeState small = model->decode_state(1, 4);
    CHECK_THROWS_AS(model->logits(tokens_of(0, 1, 5, 29).inputs, &small), UsageError);
    CHECK_THROWS_WITH(model->logits({}), "tokens: expected a shape [B, T] of at least one token, got no tensor");
    CHECK_THROWS_WITH(model->logits(Tensor::empty({1, 0}, DType::i32)),
                      "tokens: expected a shape [B, T] of at least one token, got [1, 0]");
  }
}

TEST_CASE("logits record no gradient", "[nn]") {
  const auto model = model_of(two_blocks("gpt2"), DType::f32);
  Tape tape;
  const TapeScope recording(&tape);
  CHECK_FALSE(model->logits(tokens_of(0, 1, 4, 29).inputs).requires_grad());
  CHECK(tape.empty());
}
