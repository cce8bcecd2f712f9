// QuantizedGather: gathers the matrices of a block in e4m3, half the bytes of bf16, for matmuls that would quantize
// them after the gather (docs/explanation/numerics.md, "FP8"). A scale belongs to a whole row, but a shard may hold
// only a part of it. So the ranks exchange the largest magnitudes of rows once in a step or evaluation, together with
// the parameters that stay in bf16, such as norms and biases. Results are bit-identical to a gather in bf16.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/quantize.h"
#include "parallel/layout.h"
#include "parallel/sharding.h"

namespace lt::parallel {

class QuantizedGather {
 public:
  // For parameters that are sharded over sharding.gather; `shard` is this rank's. Layout and sharding must outlive it.
  QuantizedGather(const UnitLayout& layout, UnitPart shard, const Sharding& sharding);

  // True if it saves bytes even with only one gather per exchange.
  bool is_useful() const { return is_useful_; }

  // `shard` is this rank's shard in bf16. It must not change until end(). prepare() is optional: it starts the exchange
  // early, so that the first start() does not wait for it.
  void prepare(const Tensor& shard);
  // Call these for each use of the parameters. start() quantizes the shard and gathers. bind() binds the model's
  // `tensors`, in the order of layout.ranges(), to their quantized rows or to values in bf16. release() frees the
  // gathered rows.
  Work start(const Tensor& shard);
  void bind(const std::vector<Tensor>& tensors);
  void release() { rows_ = Tensor(); }
  // Call at the end of the step or evaluation.
  void end();

  // On meta: true if an operation has read values of bound matrices. On other devices such a read throws InternalError.
  bool values_were_read() const { return values_were_read_; }

 private:
  struct Matrix {
    std::size_t parameter;  // index in layout.ranges()
    Size begin, end;        // elements of the unit
    Size rows, columns, first_row;
  };
  // Neighbouring parameters that stay in bf16.
  struct Unquantized {
    Size begin, end;  // elements of the unit
    Size at;          // first element in values_in_bf16_
  };

  // The 32-bit words that a rank contributes to the exchange: one for each row, then one for two unquantized elements.
  Size words() const { return all_rows_ + all_unquantized_ / 2; }
  // This rank's stretches of the matrices, as arguments of kernels that write to `rows` and, unless null, to
  // `shard_in_e4m3`.
  std::vector<kernels::MatrixStretch> own_stretches(const bf16* shard, e4m3* shard_in_e4m3, float* rows) const;
  void finish_exchange();

  const UnitLayout& layout_;
  const Sharding& sharding_;
  UnitPart shard_;
  std::vector<Matrix> matrices_;
  std::vector<Unquantized> unquantized_;
  Size all_rows_ = 0, all_unquantized_ = 0;
  bool is_useful_ = false, values_were_read_ = false;

  Tensor contributions_;  // [ranks * words()], f32, until the first start()
  Work exchange_;
  Tensor scales_;          // [all_rows_], f32, from the first start() to end()
  Tensor values_in_bf16_;  // [all_unquantized_], from the first start() to end()
  Tensor rows_;            // [layout.padded()] in e4m3; elements between matrices are not read
};

}  // namespace lt::parallel
