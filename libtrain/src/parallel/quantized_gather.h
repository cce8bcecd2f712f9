// QuantizedGather: gathers the matrices of a block in e4m3, half of bf16's bytes, for products that would quantize them
// after the gather (docs/numerics.md, "FP8"). The scale of a row is that of the whole row, which shards cut. So the
// ranks exchange the largest magnitudes of rows once a pass, and with them the parameters that stay in bf16, such as
// norms and biases. The bits are those of a gather in bf16.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/quantize.h"
#include "parallel/layout.h"
#include "parallel/sharding.h"

namespace lt {

class QuantizedGather {
 public:
  // For parameters that are sharded over sharding.gather. Both must outlive it.
  QuantizedGather(const UnitLayout& layout, const Sharding& sharding);

  // Whether it saves anything: there are matrices that can be quantized, and what is exchanged is smaller than they
  // are.
  bool is_useful() const { return is_useful_; }

  // `shard` is this rank's, and must not change during a pass. prepare() starts the exchange, so that it is over when
  // the first start() of the pass needs it; it may be left out.
  void prepare(const Tensor& shard);
  // For each use make_room() allocates, start() quantizes the shard and gathers, bind() gives the model's `tensors`, in
  // the order of layout.ranges(), their rows, or values where they stay in bf16, and release() frees.
  void make_room();
  bool has_room() const { return rows_.defined(); }
  Work start(const Tensor& shard);
  void bind(const std::vector<Tensor>& tensors);
  void release() { rows_ = Tensor(); }
  // Call at the end of a pass.
  void end_pass();

  // Whether an operation has read values of bound matrices. On meta that is noted, elsewhere it throws InternalError.
  bool values_were_read() const { return values_were_read_; }

 private:
  struct Matrix {
    std::size_t parameter;  // of layout.ranges()
    Size begin, end;        // elements of the unit
    Size rows, columns, first_row;
  };
  // Neighbouring parameters that stay in bf16.
  struct Rest {
    Size begin, end;  // elements of the unit
    Size at;          // elements of the buffer for all of them
  };

  Size words() const { return rows_of_all_ + (elements_of_rest_ + 1) / 2; }
  // The parts of matrices in this rank's shard; what they give goes to `shard_in_e4m3`, unless that is null, and
  // `rows`.
  std::vector<kernels::MatrixStretch> own_parts(const bf16* shard, e4m3* shard_in_e4m3, float* rows) const;
  void finish_exchange();

  const UnitLayout& layout_;
  const Sharding& sharding_;
  Size shard_, shard_begin_;
  std::vector<Matrix> matrices_;
  std::vector<Rest> rests_;
  Size rows_of_all_ = 0, elements_of_rest_ = 0;
  bool is_useful_ = false, values_were_read_ = false;

  Tensor parts_;  // [ranks, words()]: what each rank knows, in f32
  Work exchange_;
  Tensor scales_;  // [rows_of_all_], f32, from the first gather of a pass to its end
  Tensor rest_;    // [elements_of_rest_] in bf16, likewise
  Tensor rows_;    // [layout.padded()] in e4m3; what lies between matrices is not read
};

}  // namespace lt
