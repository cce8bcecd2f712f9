// Looks up rows by token id, alone and with learned positions.
#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/limits.h"
#include "libtrain/ops/ops.h"
#include "ops/check.h"
#include "tensor/dispatch.h"

namespace lt::ops {
namespace {

struct Embedding final : Function {
  const char* name() const override { return "embedding"; }

  Slot table_, positions_;
  Tensor ids_, document_starts_;
  Size T_ = 1, first_ = 0;

  // `positions` and `document_starts` may be undefined.
  Tensor forward(const Tensor& table, const Tensor& positions, const Tensor& ids, Size first,
                 const Tensor& document_starts, const kernels::IdCheck& check) {
    table_ = table.gradient_slot(), positions_ = positions.gradient_slot(), ids_ = ids;
    document_starts_ = document_starts, first_ = first;
    T_ = ids.dims() == 0 ? 1 : std::max<Size>(ids.dim(-1), 1);
    const Size C = table.dim(1);
    std::vector<Size> sizes(ids.shape().begin(), ids.shape().end());
    sizes.push_back(C);
    const Tensor y = Tensor::empty(Shape(std::span<const Size>(sizes)), table.dtype(), table.device());
    tensor::dispatch(y.device(), [&](auto s) {
      kernels::embedding_forward(s, {.dtype = y.dtype(),
                                     .M = ids.elements(),
                                     .T = T_,
                                     .C = C,
                                     .V = table.dim(0),
                                     .y_MC = y.data(),
                                     .table_VC = table.data(),
                                     .positions_TC = positions.defined() ? positions.data() : nullptr,
                                     .ids_M = ids.template data<std::int32_t>(),
                                     .first = first,
                                     .starts_M = starts_of(document_starts),
                                     .check = check});
    });
    return y;
  }

  void backward(const Tensor& dy) override {
    // Positions of documents are summed as tokens are.
    const bool sums_rows = table_ != nullptr || (positions_ != nullptr && document_starts_.defined());
    if (sums_rows) kernels::require_embedding_ids(target_of(dy.device()), ids_.elements());
    const DType sums = kernels::gradient_dtype(dy.dtype());
    GradientOutput dtable(table_, sums), dpositions(positions_, sums);
    const Size V = table_ != nullptr ? table_->shape[0] : 0, max_T = positions_ != nullptr ? positions_->shape[0] : 0;
    tensor::dispatch(dy.device(), [&](auto s) {
      kernels::embedding_backward(s, {.dtype = dy.dtype(),
                                      .M = ids_.elements(),
                                      .T = T_,
                                      .C = dy.dim(-1),
                                      .V = V,
                                      .max_T = max_T,
                                      .dtable_VC = dtable.data(),
                                      .dpositions_TC = dpositions.data(),
                                      .accumulate_table = dtable.accumulate(),
                                      .accumulate_positions = dpositions.accumulate(),
                                      .dy_MC = dy.data(),
                                      .ids_M = ids_.template data<std::int32_t>(),
                                      .starts_M = starts_of(document_starts_),
                                      .first = first_});
    });
    dtable.finish(), dpositions.finish();
  }
};

kernels::IdCheck check_table(std::string_view op, const Tensor& table, const Tensor& ids) {
  require_float(op, "table", table);
  if (table.dims() != 2) fail(op, "table", "shape [V, C]", to_string(table.shape()));
  require_i32(op, "ids", ids, table);
  return require_ids(op, "ids", ids, table.dim(0));
}

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids) {
  const kernels::IdCheck check = check_table("embedding", table, ids);
  return record<Embedding>(table, Tensor(), ids, Size{0}, Tensor(), check);
}

Tensor embedding_with_positions(const Tensor& wte, const Tensor& wpe, const Tensor& ids, Size first,
                                const Tensor& document_starts) {
  const kernels::IdCheck check = check_table("embedding_with_positions", wte, ids);
  require_like("embedding_with_positions", "wpe", wpe, wte);
  if (ids.dims() != 2) fail("embedding_with_positions", "ids", "shape [B, T]", to_string(ids.shape()));
  require_shape("embedding_with_positions", "wpe", wpe, {wpe.dims() > 0 ? wpe.dim(0) : 0, wte.dim(1)});
  if (first < 0 || first > wpe.dim(0) - ids.dim(1)) {
    fail("embedding_with_positions", "ids", "positions below " + std::to_string(wpe.dim(0)),
         std::to_string(ids.dim(1)) + " tokens from position " + std::to_string(first) + " on");
  }
  require_distinct("embedding_with_positions", {{"wte", &wte}, {"wpe", &wpe}});
  require_document_starts("embedding_with_positions", document_starts, ids.dim(0), ids.dim(1), first, wte);
  return record<Embedding>(wte, wpe, ids, first, document_starts, check);
}

}  // namespace lt::ops
