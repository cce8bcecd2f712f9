// Rows of several documents give the same loss and gradients as one pass per document, in every family.
#include "kernels/documents.h"
#include "nn/passes.h"
#include "test_main/catch.h"
#include "test_main/worst_of.h"

using namespace lt;
using namespace lt_test;
using nn::Recompute;

namespace {

struct Recomputing final : nn::UnitObserver {
  explicit Recomputing(Recompute mode) : mode_(mode) {}
  void before_forward(int) override {}
  void after_forward(int) override {}
  void before_backward(int) override {}
  void after_backward(int) override {}
  Recompute recompute(int) const override { return mode_; }

 private:
  Recompute mode_;
};

// The mean over all tokens, from a pass for each document.
Pass one_by_one(nn::Model& model, const Batch& batch) {
  const Size B = batch.inputs.dim(0), T = batch.inputs.dim(1);
  const auto* const starts = batch.document_starts.data<std::int32_t>();
  Pass mean;
  for (Size end, begin = 0; begin < B * T; begin = end) {
    for (end = begin + 1; end % T != 0 && starts[end] == begin % T;) ++end;
    const auto document = [&](const Tensor& all) { return all.view({1, B * T}).narrow(1, begin, end - begin); };
    const Pass pass = run_pass(model, {document(batch.inputs), document(batch.targets)});
    const double share = static_cast<double>(end - begin) / static_cast<double>(B * T);
    mean.loss += share * pass.loss;
    for (const auto& [name, values] : pass.gradients) {
      std::vector<double>& sum = mean.gradients[name];
      sum.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) sum[i] += share * values[i];
    }
  }
  return mean;
}

}  // namespace

TEST_CASE("documents of a row give the loss and gradients that they give one by one", "[nn]") {
  for (const std::string& family : family_names()) {
    nn::TransformerSpec spec = two_blocks(family);
    spec.max_seq = 150;
    if (family == "mistral") spec.window = 20;
    const auto model = model_of(spec, DType::f32);
    // Documents shorter and longer than a block of attention's 64 tokens, of one token, and cut by the end of a row.
    for (const std::vector<Size>& lengths : {std::vector<Size>{70, 1, 1, 33}, {1}, {200}}) {
      const Size B = 2, T = lengths[0] == 1 ? 9 : 149;
      Batch batch = tokens_of(0, B, T, spec.vocab);
      const Pass whole_rows = run_pass(*model, batch);
      batch.document_starts = Tensor::from(test::document_starts(B, T, lengths), {B, T});
      const Pass expected = one_by_one(*model, batch), packed = run_pass(*model, batch);
      INFO(family << " documents of " << lengths[0]);
      CHECK(std::abs(packed.loss - expected.loss) <= 1e-6);
      double worst = 0;
      for (const auto& [name, values] : packed.gradients) {
        const std::vector<double>& other = expected.gradients.at(name);
        for (std::size_t i = 0; i < values.size(); ++i) worst = worst_of(worst, std::abs(values[i] - other[i]));
      }
      CHECK(worst <= 1e-6);
      CHECK((packed == whole_rows) == (lengths[0] > T));
      for (const Recompute mode : {Recompute::selective, Recompute::full}) {
        Recomputing observer(mode);
        model->set_observer(&observer);
        CHECK(run_pass(*model, batch) == packed);
        model->set_observer(nullptr);
      }
    }
  }
}
