// An operation of one's own: the squared ReLU, y = max(x, 0)^2 (So et al. 2021, "Primer", section 3), on CPU ranks.
// Checks its gradient, then trains a small model that uses it.
//   mpirun -n 2 own_operation zero3
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "libtrain/libtrain.h"
#include "libtrain/nn/layers.h"
#include "libtrain/ops/check_gradient.h"

using lt::Size, lt::Tensor;

namespace {

// Calls body(T()) with the element type of a dtype that operations compute with on the CPU.
template <class Body>
void for_type(lt::DType dtype, Body&& body) {
  switch (dtype) {
    case lt::DType::f32: return body(float());
    case lt::DType::f64: return body(double());
    case lt::DType::bf16: return body(lt::bf16());
    default: throw lt::UsageError("squared_relu", "x", "f32, f64 or bf16", std::string(lt::dtype_name(dtype)));
  }
}

struct SquaredRelu final : lt::Function {
  const char* name() const override { return "squared_relu"; }
  lt::Saved x_;  // keeps the values for the backward pass

  Tensor forward(const Tensor& x) {
    if (x.device().type == lt::DeviceType::cuda)
      throw lt::UsageError("squared_relu", "x", "a tensor on the CPU", "cuda");
    x_ = x;
    const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    if (x.device().is_meta()) return y;  // a rehearsal or a plan: shapes without values
    for_type(x.dtype(), [&]<class T>(T) {
      const T* const from = x.data<T>();
      T* const to = y.data<T>();
      for (Size i = 0; i < x.elements(); ++i) to[i] = from[i] > T(0) ? T(from[i] * from[i]) : T(0);
    });
    return y;
  }

  // dx = 2 max(x, 0) dy.
  void backward(const Tensor& dy) override {
    if (x_.slot() == nullptr) return;  // x needs no gradient
    const Tensor dx = Tensor::empty(dy.shape(), dy.dtype(), dy.device());
    if (!dy.device().is_meta()) {
      for_type(dy.dtype(), [&]<class T>(T) {
        const T *const values = x_.get().data<T>(), *const from = dy.data<T>();
        T* const to = dx.data<T>();
        for (Size i = 0; i < dy.elements(); ++i) to[i] = values[i] > T(0) ? T(2 * values[i] * from[i]) : T(0);
      });
    }
    x_.slot()->add(dx);  // converts: the gradient of a bf16 parameter is f32
  }
};

Tensor squared_relu(const Tensor& x) { return lt::record<SquaredRelu>(x); }

// Learns y = sin(3 x) on [-1, 1].
struct Sine final : lt::nn::Model {
  Sine()
      : first(add_unit<lt::nn::Linear>("first", {.in = 1, .out = 32, .init = lt::nn::Init::normal(1)})),
        last(add_unit<lt::nn::Linear>("last", {.in = 32, .out = 1})) {}
  Tensor loss(const lt::Batch& batch) override {
    const Tensor hidden = run(
        first, [this](const Tensor& x) { return squared_relu(first(x)); }, batch.inputs);
    const auto loss_of = [this](const Tensor& h, const Tensor& y) {
      const Tensor error = last(h) - y;
      return lt::ops::mean(error * error);
    };
    return run(last, loss_of, hidden, batch.targets);
  }
  lt::nn::Linear &first, &last;
};

void train(const lt::World& world, const char* strategy) {
  const Tensor x = Tensor::from(std::vector<float>{-1.5f, -0.5f, 0.25f, 2}, {2, 2});
  const double error = lt::check_gradient([](const std::vector<Tensor>& in) { return squared_relu(in[0]); }, {x});
  if (world.rank() == 0) std::printf("gradient error %.1e\n", error);

  Sine model;
  const Size samples = 64 / world.size();
  lt::Engine engine(model, world.group(), {.strategy = lt::find_strategy(strategy)}, lt::AdamW{.lr = 1e-2f},
                    {.micro_batch = samples});
  std::vector<float> inputs, targets;
  for (Size i = world.rank() * samples; i < (world.rank() + 1) * samples; ++i) {
    inputs.push_back(static_cast<float>(i) / 32 - 1);
    targets.push_back(std::sin(3 * inputs.back()));
  }
  const lt::Batch batch{Tensor::from(inputs, {samples, 1}), Tensor::from(targets, {samples, 1})};
  for (int step = 1; step <= 300; ++step) {
    const float loss = engine.step(batch).loss();
    if (world.rank() == 0 && (step == 1 || step % 100 == 0)) std::printf("step %d loss %.4f\n", step, loss);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return lt::run_program(argc, argv, [&](const lt::World& world) {
    train(world, argc > 1 ? argv[1] : "zero3");
    return 0;
  });
}
