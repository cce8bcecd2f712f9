// A deliberate bug: a model that reads an activation after its lifetime in the arena. AddressSanitizer must stop it.
#include <cstdio>

#include "libtrain/nn/layers.h"
#include "libtrain/ops/ops.h"
#include "libtrain/parallel/engine.h"
#include "libtrain/tensor/autograd.h"

namespace {

struct Planted : lt::nn::Model {
  struct Layer : lt::nn::Module {
    Layer() : linear(add<lt::nn::Linear>("linear", {.in = 64, .out = 64, .init = lt::nn::Init::normal(0.3f)})) {}
    lt::nn::Linear& linear;
  };
  Planted() : layer(add_unit<Layer>("layer")) {}
  lt::Tensor loss(const lt::Batch& batch) override {
    const auto body = [this](const lt::Tensor& x) {
      const float* gone = nullptr;
      {
        const lt::TapeScope no_recording(nullptr);
        const lt::Tensor y = layer.linear(x);
        if (!x.device().is_meta()) gone = static_cast<const float*>(y.data());
      }
      if (gone != nullptr) std::printf("read after its lifetime: %f\n", static_cast<double>(*gone));
      return lt::ops::mean(layer.linear(x));
    };
    return run(layer, body, batch.inputs);
  }
  Layer& layer;
};

}  // namespace

int main() {
  Planted model;
  lt::Engine engine(model, lt::Group(), {}, lt::AdamW{}, {.micro_batch = 2});
  engine.step({lt::Tensor::zeros({2, 64}, lt::DType::f32), lt::Tensor::zeros({2, 64}, lt::DType::f32)});
  std::puts("nothing noticed");
  return 0;
}
