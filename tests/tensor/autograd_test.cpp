// Gradient slots, the order of the tape, and the recomputation of released outputs.
#include "libtrain/tensor/autograd.h"

#include <utility>
#include <vector>

#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "libtrain/ops/ops.h"
#include "tensor/ramp.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

namespace {

Tensor vector(std::vector<float> values) { return Tensor::from(values, {static_cast<Size>(values.size())}); }
Tensor leaf(std::vector<float> values) {
  Tensor x = vector(std::move(values));
  x.set_requires_grad();
  return x;
}
GradientSlot slot_of(const Shape& shape, DType dtype) { return {shape, dtype, kCpu, {}, false}; }

// Records when it runs and when it is destroyed.
struct Note final : TapeNode {
  Note(std::string name, std::vector<std::string>& log) : name_(std::move(name)), log_(log) {}
  ~Note() override { log_.push_back("~" + name_); }
  void run_backward() override { log_.push_back(name_); }

  std::string name_;
  std::vector<std::string>& log_;
};

// y = 2 x, cheap, and counts how often it is recomputed.
struct Twice final : Function {
  const char* name() const override { return "twice"; }
  static inline int recomputed = 0;
  Saved x_;

  Tensor forward(const Tensor& x) {
    x_ = x;
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    fill(y);
    return y;
  }
  void fill(const Tensor& y) const {
    for (Size i = 0; i < y.elements(); ++i) y.data<float>()[i] = 2 * x_.get().data<float>()[i];
  }
  bool is_cheap() const override { return true; }
  void recompute(const Tensor& y) override { ++recomputed, fill(y); }
  void backward(const Tensor& dy) override { x_.slot()->add(ops::scale(dy, 2)); }
};

// Returns x + 1 and 3 x.
struct Both final : MultiResultFunction {
  const char* name() const override { return "both"; }
  Slot x_;

  std::pair<Tensor, Tensor> forward(const Tensor& x) {
    x_ = x.gradient_slot();
    const Tensor one = Tensor::empty(x.shape(), x.dtype(), x.device());
    for (Size i = 0; i < x.elements(); ++i) one.data<float>()[i] = x.data<float>()[i] + 1;
    return {one, ops::scale(x, 3)};
  }
  void backward(const std::vector<Tensor>& dys) override {
    if (dys[0].defined()) x_->add(dys[0]);
    if (dys[1].defined()) x_->add(ops::scale(dys[1], 3));
  }
};

}  // namespace

TEST_CASE("slot: the first contribution overwrites, later ones add", "[tensor]") {
  GradientSlot slot = slot_of({3}, DType::f32);
  const Tensor place = vector({7, 7, 7});
  slot.value = place;  // bound beforehand, with arbitrary contents
  slot.add(vector({1, 2, 3}));
  CHECK(place.to_vector<float>() == std::vector<float>{1, 2, 3});
  CHECK(slot.value.is_same(place));
  slot.add(vector({10, 10, 10}));
  CHECK(place.to_vector<float>() == std::vector<float>{11, 12, 13});

  slot = slot_of({3}, DType::f32);
  slot.value = place;
  const GradientTarget first = slot.next(), second = slot.next();
  CHECK(first.dst.is_same(place));
  CHECK_FALSE(first.accumulate);
  CHECK(second.accumulate);
  CHECK(slot.written);
}

TEST_CASE("slot: a first gradient is taken over without a copy", "[tensor]") {
  GradientSlot slot = slot_of({3}, DType::f32);
  Tensor gradient = vector({1, 2, 3});
  const void* address = gradient.data();
  const MemoryUse before = memory_live(kCpu);
  slot.add(std::move(gradient));
  CHECK(slot.value.data() == address);
  CHECK(memory_live(kCpu).total == before.total);
  slot.add(vector({1, 1, 1}));
  CHECK(slot.value.data() == address);
  CHECK(slot.value.to_vector<float>() == std::vector<float>{2, 3, 4});
}

TEST_CASE("slot: gradients of another dtype are converted and summed in the slot's", "[tensor]") {
  GradientSlot slot = slot_of({2}, DType::f32);
  const Tensor small = Tensor::from(std::vector<bf16>{bf16(1.0f), bf16(0x1p-9f)}, {2});
  slot.add(small);
  CHECK(slot.value.dtype() == DType::f32);
  CHECK_FALSE(slot.value.is_same(small));
  slot.add(Tensor::from(std::vector<bf16>{bf16(0x1p-9f), bf16(0x1p-9f)}, {2}));
  CHECK(slot.value.to_vector<float>() == std::vector<float>{1 + 0x1p-9f, 0x1p-8f});  // in bf16 the first would stay 1
}

TEST_CASE("slot: a gradient of another shape is refused", "[tensor]") {
  GradientSlot slot = slot_of({3}, DType::f32);
  CHECK_THROWS_AS(slot.add(vector({1, 2})), UsageError);
}

TEST_CASE("a leaf gathers in f32, in f64 for f64; results have gradients of their own dtype", "[tensor]") {
  for (const auto& [dtype, expected] :
       {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::f64, DType::f64}}) {
    Tensor x = Tensor::zeros({2}, dtype);
    CHECK_FALSE(x.requires_grad());
    CHECK(x.gradient_slot() == nullptr);
    x.set_requires_grad();
    CHECK(x.gradient_slot()->dtype == expected);
    CHECK_FALSE(x.gradient().defined());
    Tensor y = Tensor::zeros({2}, dtype);
    y.set_result_of_operation();
    CHECK(y.gradient_slot()->dtype == dtype);
  }
  CHECK_FALSE(Tensor().requires_grad());
  CHECK(Tensor().gradient_slot() == nullptr);
}

TEST_CASE("tape: nodes run in reverse, each destroyed before the next runs", "[tensor]") {
  std::vector<std::string> log;
  Tape tape;
  for (const char* name : {"a", "b", "c"}) tape.push(std::make_shared<Note>(name, log));
  CHECK_FALSE(tape.empty());
  tape.run_backward();
  CHECK(log == std::vector<std::string>{"c", "~c", "b", "~b", "a", "~a"});
  CHECK(tape.empty());
}

TEST_CASE("tape: scopes nest, and without a tape nothing is recorded", "[tensor]") {
  const Tensor x = leaf({1, 2});
  CHECK(Context::current().tape == nullptr);
  Tape outer, inner;
  {
    const TapeScope outer_scope(&outer);
    {
      const TapeScope inner_scope(&inner);
      CHECK(Context::current().tape == &inner);
      CHECK(ops::scale(x, 2).requires_grad());
      const TapeScope none(nullptr);
      CHECK_FALSE(ops::scale(x, 2).requires_grad());
    }
    CHECK(Context::current().tape == &outer);
    CHECK_FALSE(ops::scale(vector({1, 2}), 2).requires_grad());  // nobody wants its gradient
  }
  CHECK(Context::current().tape == nullptr);
  CHECK(outer.empty());
  CHECK_FALSE(inner.empty());
}

TEST_CASE("backward: a tensor used several times gathers the sum, and a second tape adds to it", "[tensor]") {
  const Tensor x = leaf({1, 2, 3});
  for (int pass = 1; pass <= 2; ++pass) {
    Tape tape;
    {
      const TapeScope recording(&tape);
      const Tensor y = ops::add(ops::mul(x, x), ops::add(x, x));  // x^2 + 2x
      backward(tape, ops::sum(y), 10.0);
    }
    const auto p = static_cast<float>(pass);
    CHECK(x.gradient().to_vector<float>() == std::vector<float>{40 * p, 60 * p, 80 * p});
    CHECK(tape.empty());
  }
}

TEST_CASE("backward: what the loss does not depend on keeps no gradient", "[tensor]") {
  const Tensor x = leaf({1, 2}), unused = leaf({3, 4}), dead_end = leaf({5, 6});
  Tape tape;
  const TapeScope recording(&tape);
  ops::mul(dead_end, x);  // nobody uses its result
  backward(tape, ops::sum(x));
  CHECK(x.gradient().to_vector<float>() == std::vector<float>{1, 1});
  CHECK_FALSE(unused.gradient().defined());
  CHECK_FALSE(dead_end.gradient().defined());
}

TEST_CASE("backward refuses a loss that is no scalar or depends on nothing", "[tensor]") {
  Tape tape;
  const TapeScope recording(&tape);
  const Tensor x = leaf({1, 2});
  CHECK_THROWS_AS(backward(tape, ops::scale(x, 2)), UsageError);
  CHECK_THROWS_WITH(backward(tape, ops::sum(x), {1, Tensor::zeros({1}, DType::f64)}),
                    "the scale of a loss's gradient: expected one f32 on cpu, got [1] of f64 on cpu");
  CHECK_THROWS_AS(backward(tape, ops::sum(x), {1, Tensor::zeros({1}, DType::f32, kMeta)}), UsageError);
  CHECK_THROWS_AS(backward(tape, ops::sum(vector({1, 2}))), UsageError);
}

TEST_CASE("backward refuses a second loss on a tape that it has emptied, but takes a leaf", "[tensor]") {
  const Tensor x = leaf({1});
  Tape tape;
  const TapeScope recording(&tape);
  const Tensor first = ops::scale(x, 2), second = ops::scale(x, 10);
  backward(tape, first);
  CHECK_THROWS_WITH(backward(tape, second), "backward(): expected the tape that recorded the loss, got an empty one");
  CHECK_THROWS_AS(backward(tape, first), UsageError);
  CHECK(x.gradient().item() == 2);
  backward(tape, x);
  CHECK(x.gradient().item() == 3);
}

TEST_CASE("a tape that keeps no values recomputes cheap outputs in backward, each once", "[tensor]") {
  for (const bool keep : {true, false}) {
    Twice::recomputed = 0;
    const Tensor x = leaf({1, 2, 3});
    Tape tape(keep);
    CHECK(tape.keeps_values() == keep);
    const TapeScope recording(&tape);
    const MemoryUse before = memory_live(kCpu);
    {
      const Tensor a = record<Twice>(x), b = record<Twice>(a), y = ops::mul(b, b);
      tape.release_values({y});
      // Only the gradients need a and b; y is the output.
      CHECK((memory_live(kCpu).total - before.total) / kAllocationAlignment == (keep ? 3 : 1));
      CHECK(y.to_vector<float>() == std::vector<float>{16, 64, 144});
      CHECK(Twice::recomputed == 0);
      backward(tape, ops::sum(y));
    }
    CHECK(x.gradient().to_vector<float>() == std::vector<float>{32, 64, 96});  // (16 x^2)' = 32 x
    CHECK(Twice::recomputed == (keep ? 0 : 2));
  }
}

TEST_CASE("an operation with several results: each gradient arrives, or none where a result was not used", "[tensor]") {
  const auto gradient_of = [](auto&& loss_of) {
    const Tensor x = leaf({1, 2});
    Tape tape;
    const TapeScope recording(&tape);
    const auto [one, three] = record<Both>(x);
    CHECK(one.to_vector<float>() == std::vector<float>{2, 3});
    CHECK(three.to_vector<float>() == std::vector<float>{3, 6});
    backward(tape, ops::sum(loss_of(one, three)));
    return x.gradient().to_vector<float>();
  };
  CHECK(gradient_of([](const Tensor& one, const Tensor&) { return one; }) == std::vector<float>{1, 1});
  CHECK(gradient_of([](const Tensor&, const Tensor& three) { return three; }) == std::vector<float>{3, 3});
  CHECK(gradient_of([](const Tensor& one, const Tensor& three) { return ops::mul(one, three); }) ==
        std::vector<float>{9, 15});                   // (3 x^2 + 3 x)' = 6 x + 3
  const auto [one, three] = record<Both>(leaf({1}));  // without a tape
  CHECK(!one.requires_grad());
}

TEST_CASE("a released output that is the unit's own stays", "[tensor]") {
  Twice::recomputed = 0;
  const Tensor x = leaf({1});
  Tape tape(false);
  const TapeScope recording(&tape);
  const Tensor a = record<Twice>(x), y = record<Twice>(a);
  tape.release_values({y});
  CHECK(y.is_bound());
  CHECK_FALSE(a.is_bound());
  CHECK(y.item() == 4);
  CHECK(Twice::recomputed == 0);
}
