// The gather in e4m3: which parameters, what is exchanged, and the buffers.
#include "parallel/quantized_gather.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/copy_bytes.h"
#include "device/fault.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "parallel/flat_buffer.h"
#include "profile/activity_clock.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"
#include "tensor/storage.h"

namespace lt {
namespace {

bool can_be_quantized(const nn::Parameter& parameter) {
  if (!parameter.is_block_matrix()) return false;
  const auto fits = [](Size n) { return n % kernels::kQuantizedMultiple == 0 && n <= kernels::kMostQuantizedColumns; };
  return fits(parameter.shape()[0]) && fits(parameter.shape()[1]);
}

}  // namespace

QuantizedGather::QuantizedGather(const UnitLayout& layout, const Sharding& sharding)
    : layout_(layout),
      sharding_(sharding),
      shard_(layout.padded() / sharding.gather.size()),
      shard_begin_(shard_ * sharding.gather.rank()) {
  bool follows_rest = false;
  Size elements = 0;
  for (std::size_t i = 0; i < layout.ranges().size(); ++i) {
    const UnitLayout::Range& range = layout.ranges()[i];
    const bool is_rest = !can_be_quantized(*range.parameter);
    if (!is_rest) {
      const Shape& shape = range.parameter->shape();
      matrices_.push_back({i, range.begin, range.end(), shape[0], shape[1], rows_of_all_});
      rows_of_all_ += shape[0], elements += range.elements;
    } else if (follows_rest) {
      rests_.back().end = range.end();
    } else {
      rests_.push_back({range.begin, range.end(), 0});
    }
    follows_rest = is_rest;
  }
  for (Rest& rest : rests_) {
    rest.at = elements_of_rest_;
    elements_of_rest_ += UnitLayout::aligned(rest.end - rest.begin);
  }
  // A step gathers each unit twice and exchanges once.
  const Size ranks = sharding.gather.size();
  is_useful_ = ranks > 1 && ranks * words() * dtype_bytes(DType::f32) < 2 * elements;
}

std::vector<kernels::MatrixStretch> QuantizedGather::own_parts(const bf16* shard, e4m3* shard_in_e4m3,
                                                               float* rows) const {
  std::vector<kernels::MatrixStretch> parts;
  for (const Matrix& matrix : matrices_) {
    const Size begin = std::max(matrix.begin, shard_begin_), end = std::min(matrix.end, shard_begin_ + shard_);
    if (begin >= end) continue;
    const Size at = begin - shard_begin_;
    parts.push_back({begin - matrix.begin, end - matrix.begin, matrix.columns, shard + at,
                     shard_in_e4m3 == nullptr ? nullptr : shard_in_e4m3 + at, rows + matrix.first_row});
  }
  return parts;
}

void QuantizedGather::prepare(const Tensor& shard) {
  if (parts_.defined() || scales_.defined()) return;
  const Device device = sharding_.device;
  {
    const MemoryScope owner(MemoryOwner::communication);
    parts_ = Tensor::empty({sharding_.gather.size() * words()}, DType::f32, device);
  }
  const Tensor own = parts_.narrow(0, sharding_.gather.rank() * words(), words());
  fill_zero(own);
  count_traffic(shard_ * dtype_bytes(DType::bf16));
  dispatch(device, [&](auto stream) {
    kernels::largest_of_rows(stream, own_parts(shard.data<bf16>(), nullptr, own.data<float>()));
  });
  for (const Rest& rest : rests_) {
    const Size begin = std::max(rest.begin, shard_begin_), end = std::min(rest.end, shard_begin_ + shard_);
    if (begin >= end || device.is_meta()) continue;
    auto* const to = reinterpret_cast<bf16*>(own.data<float>() + rows_of_all_) + rest.at + begin - rest.begin;
    copy_bytes(device, to, shard.data<bf16>() + begin - shard_begin_, (end - begin) * dtype_bytes(DType::bf16));
  }
  exchange_ = sharding_.gather.all_gather(layout_.name() + " scales", parts_, own);
}

void QuantizedGather::finish_exchange() {
  const ActivityScope activity(Activity::gather_exposed);
  fault_point("collective");
  exchange_.wait();
  const MemoryScope owner(MemoryOwner::parameters);
  scales_ = Tensor::empty({rows_of_all_}, DType::f32, sharding_.device);
  rest_ = Tensor::empty({elements_of_rest_}, DType::bf16, sharding_.device);
  dispatch(sharding_.device, [&](auto stream) {
    kernels::join_scales(stream, {.parts_PW = reinterpret_cast<const std::uint32_t*>(parts_.data<float>()),
                                  .P = sharding_.gather.size(),
                                  .W = words(),
                                  .R = rows_of_all_,
                                  .scales_R = scales_.data<float>(),
                                  .rest = reinterpret_cast<std::uint32_t*>(rest_.data<bf16>())});
  });
  parts_ = Tensor();
}

void QuantizedGather::make_room() {
  rows_ = flat_uninitialised(layout_.padded(), DType::e4m3, sharding_.device, MemoryOwner::parameters);
}

Work QuantizedGather::start(const Tensor& shard) {
  prepare(shard);
  if (!scales_.defined()) finish_exchange();
  const Tensor own = rows_.narrow(0, shard_begin_, shard_);
  count_traffic(shard_ * (dtype_bytes(DType::bf16) + dtype_bytes(DType::e4m3)));
  dispatch(sharding_.device, [&](auto stream) {
    kernels::quantize_stretches(stream, own_parts(shard.data<bf16>(), own.data<e4m3>(), scales_.data<float>()));
  });
  return sharding_.gather.all_gather(layout_.name() + " parameters", rows_, own);
}

void QuantizedGather::bind(const std::vector<Tensor>& tensors) {
  for (const Matrix& matrix : matrices_) {
    const auto on_read = [this, &name = layout_.ranges()[matrix.parameter].name] {
      values_were_read_ = true;
      if (sharding_.device.is_meta()) return;
      throw InternalError("engine",
                          fmt::format("{}: its values were read, which the rehearsal of this pass did not do, "
                                      "so it was gathered in e4m3",
                                      name));
    };
    const Tensor rows = rows_.narrow(0, matrix.begin, matrix.end - matrix.begin);
    TensorStorage::bind_rows(
        tensors[matrix.parameter],
        {rows.view({matrix.rows, matrix.columns}), scales_.narrow(0, matrix.first_row, matrix.rows)}, on_read);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const UnitLayout::Range& range = layout_.ranges()[i];
    const auto holds = [&](const Rest& rest) { return rest.begin <= range.begin && range.end() <= rest.end; };
    const auto rest = std::find_if(rests_.begin(), rests_.end(), holds);
    if (rest != rests_.end()) TensorStorage::rebind(tensors[i], rest_, rest->at + range.begin - rest->begin);
  }
}

void QuantizedGather::end_pass() {
  if (exchange_.pending()) exchange_.wait();
  parts_ = scales_ = rest_ = Tensor();
}

}  // namespace lt
