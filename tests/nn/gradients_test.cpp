// The gradients of whole models against central differences of their loss, in f64.
#include <cmath>

#include "nn/passes.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;

// One direction for each parameter tensor: d loss(w + h v) / dh = gradient . v for v of random signs.
TEST_CASE("gradients of every parameter agree with central differences of the loss", "[nn]") {
  for (const std::string& family : family_names()) {
    for (const bool tied : {true, false}) {
      nn::TransformerSpec spec = two_blocks(family);
      spec.tie_embeddings = tied, spec.dropout = 0.1;
      const auto model = model_of(spec, DType::f64);
      const Batch batch = tokens_of(0, 2, 8, spec.vocab);
      const nn::ForwardContext context{true, 4, 0, {}};
      const Pass pass = run_pass(*model, batch, context);
      const nn::ForwardScope scope(context);
      for (const nn::NamedParameter& entry : model->all_parameters()) {
        const std::vector<double>& gradient = pass.gradients.at(entry.name);
        const Tensor& weight = entry.parameter->tensor();
        const std::vector<double> kept = weight.to_vector<double>();
        const auto sign = [&](std::size_t i) {
          return philox_word(derive_key(1, entry.name), i) % 2 == 0 ? 1.0 : -1.0;
        };
        const auto loss_at = [&](double h) {
          for (std::size_t i = 0; i < kept.size(); ++i) weight.data<double>()[i] = kept[i] + h * sign(i);
          return model->loss(batch).item();
        };
        double along = 0, scale = 0;
        for (std::size_t i = 0; i < kept.size(); ++i) along += gradient[i] * sign(i), scale += std::abs(gradient[i]);
        const double h = 1e-6, difference = (loss_at(h) - loss_at(-h)) / (2 * h);
        loss_at(0);
        INFO(family << (tied ? " tied " : " untied ") << entry.name);
        // Norms of vectors of 0.02 make third derivatives of 50^3: truncation (h^2) is near 1e-8 of the gradient,
        // rounding (eps / h) near 1e-9 in all.
        CHECK(std::abs(difference - along) < 1e-7 * scale + 5e-9);
        CHECK(scale > 0);
      }
    }
  }
}
