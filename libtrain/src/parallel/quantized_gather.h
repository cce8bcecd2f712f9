// QuantizedGather: gathers the matrices of a block in e4m3, half of bf16's bytes, for products that would quantize them
// after the gather (docs/numerics.md, "FP8"). The scale of a row is that of the whole row, which shards cut. So the
// ranks exchange the largest magnitudes of rows once a step or evaluation, and with them the parameters that stay in
// bf16, such as norms and biases. The bits are those of a gather in bf16.
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

  // Whether it saves bytes even where the exchange is followed by one gather alone.
  bool is_useful() const { return is_useful_; }

  // `shard` is this rank's, in bf16, and must not change until end(). prepare() starts the exchange, so that it is over
  // when the first start() needs it; it may be left out.
  void prepare(const Tensor& shard);
  // For each use start() quantizes the shard and gathers, bind() gives the model's `tensors`, in the order of
  // layout.ranges(), their rows, or values where they stay in bf16, and release() frees what was gathered.
  Work start(const Tensor& shard);
  void bind(const std::vector<Tensor>& tensors);
  void release() { rows_ = Tensor(); }
  // Call at the end of the step or evaluation.
  void end();

  // Whether something has read values of bound matrices. On meta that is noted, elsewhere it throws InternalError.
  bool values_were_read() const { return values_were_read_; }

 private:
  struct Matrix {
    std::size_t parameter;  // of layout.ranges()
    Size begin, end;        // elements of the unit
    Size rows, columns, first_row;
  };
  // Neighbouring parameters that stay in bf16.
  struct Unquantized {
    Size begin, end;  // elements of the unit
    Size at;          // elements of the buffer for all of them
  };

  // A rank contributes so many 32-bit words to the exchange: one for each row, then one for two unquantized elements.
  Size words() const { return all_rows_ + all_unquantized_ / 2; }
  // This rank's stretches of the matrices, with results in `rows` and, unless it is null, in `shard_in_e4m3`.
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
  Tensor values_in_bf16_;  // [all_unquantized_], likewise
  Tensor rows_;            // [layout.padded()] in e4m3; what lies between matrices is not read
};

}  // namespace lt::parallel
