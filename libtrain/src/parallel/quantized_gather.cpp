// Chooses the matrices to quantize, exchanges their scales, and gathers their rows.
#include "parallel/quantized_gather.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/copy_bytes.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "parallel/exposed_wait.h"
#include "parallel/flat_buffer.h"
#include "profile/work_count.h"
#include "tensor/dispatch.h"
#include "tensor/storage.h"

namespace lt::parallel {
namespace {

// Rows must be aligned as memory of their own is, because cuBLASLt chooses algorithms by alignment.
bool can_be_quantized(const UnitLayout::Range& range) {
  const Size place = range.begin * dtype_bytes(DType::e4m3);
  if (!range.parameter->is_block_matrix() || place % kAllocationAlignment != 0) return false;
  const auto fits = [](Size n) { return n % kernels::kQuantizedMultiple == 0 && n <= kernels::kMostQuantizedColumns; };
  return fits(range.parameter->shape()[0]) && fits(range.parameter->shape()[1]);
}

}  // namespace

QuantizedGather::QuantizedGather(const UnitLayout& layout, UnitPart shard, const Sharding& sharding)
    : layout_(layout), sharding_(sharding), shard_(shard) {
  bool follows_unquantized = false;
  Size elements = 0;
  for (std::size_t i = 0; i < layout.ranges().size(); ++i) {
    const UnitLayout::Range& range = layout.ranges()[i];
    const bool is_quantized = can_be_quantized(range);
    if (is_quantized) {
      const Shape& shape = range.parameter->shape();
      matrices_.push_back({i, range.begin, range.end(), shape[0], shape[1], all_rows_});
      all_rows_ += shape[0], elements += range.elements;
    } else if (follows_unquantized) {
      unquantized_.back().end = range.end();
    } else {
      unquantized_.push_back({range.begin, range.end(), 0});
    }
    follows_unquantized = !is_quantized;
  }
  for (Unquantized& stretch : unquantized_) {
    stretch.at = all_unquantized_;
    all_unquantized_ += UnitLayout::aligned(stretch.end - stretch.begin);
  }
  const Size ranks = sharding.gather.size();
  is_useful_ = ranks > 1 && ranks * words() * dtype_bytes(DType::f32) < elements;
}

std::vector<kernels::MatrixStretch> QuantizedGather::own_stretches(const bf16* shard, e4m3* shard_in_e4m3,
                                                                   float* rows) const {
  std::vector<kernels::MatrixStretch> stretches;
  for (const Matrix& matrix : matrices_) {
    const UnitPart own = shard_.overlap(matrix.begin, matrix.end);
    if (own.size == 0) continue;
    const Size at = own.begin - shard_.begin;
    stretches.push_back({own.begin - matrix.begin, own.end() - matrix.begin, matrix.columns, shard + at,
                         shard_in_e4m3 == nullptr ? nullptr : shard_in_e4m3 + at, rows + matrix.first_row});
  }
  return stretches;
}

void QuantizedGather::prepare(const Tensor& shard) {
  if (contributions_.defined() || scales_.defined()) return;
  const Device device = sharding_.device;
  contributions_ =
      flat_uninitialised(sharding_.gather.size() * words(), DType::f32, device, MemoryOwner::communication);
  const Tensor own = contributions_.narrow(0, sharding_.gather.rank() * words(), words());
  fill_zero(own);
  profile::count_traffic(shard_.size * dtype_bytes(DType::bf16));
  tensor::dispatch(device, [&](auto stream) {
    kernels::largest_of_rows(stream, own_stretches(shard.data<bf16>(), nullptr, own.data<float>()));
    auto* const unquantized = reinterpret_cast<bf16*>(own.data<float>() + all_rows_);
    for (const Unquantized& stretch : unquantized_) {
      const UnitPart part = shard_.overlap(stretch.begin, stretch.end);
      if (part.size == 0) continue;
      device::copy_bytes(device, unquantized + stretch.at + part.begin - stretch.begin,
                         shard.data<bf16>() + part.begin - shard_.begin, part.size * dtype_bytes(DType::bf16));
    }
  });
  exchange_ = sharding_.gather.all_gather(layout_.name() + " scales", contributions_, own);
}

void QuantizedGather::finish_exchange() {
  wait_exposed(exchange_, Activity::gather_exposed);
  scales_ = flat_uninitialised(all_rows_, DType::f32, sharding_.device, MemoryOwner::parameters);
  values_in_bf16_ = flat_uninitialised(all_unquantized_, DType::bf16, sharding_.device, MemoryOwner::parameters);
  tensor::dispatch(sharding_.device, [&](auto stream) {
    kernels::join_scales(stream, {.words_PW = reinterpret_cast<const std::uint32_t*>(contributions_.data<float>()),
                                  .P = sharding_.gather.size(),
                                  .W = words(),
                                  .R = all_rows_,
                                  .scales_R = scales_.data<float>(),
                                  .others = reinterpret_cast<std::uint32_t*>(values_in_bf16_.data<bf16>())});
  });
  contributions_ = Tensor();
}

Work QuantizedGather::start(const Tensor& shard) {
  prepare(shard);
  if (!scales_.defined()) finish_exchange();
  rows_ = flat_uninitialised(layout_.padded(), DType::e4m3, sharding_.device, MemoryOwner::parameters);
  const Tensor own = rows_.narrow(0, shard_.begin, shard_.size);
  profile::count_traffic(shard_.size * (dtype_bytes(DType::bf16) + dtype_bytes(DType::e4m3)));
  tensor::dispatch(sharding_.device, [&](auto stream) {
    kernels::quantize_stretches(stream, own_stretches(shard.data<bf16>(), own.data<e4m3>(), scales_.data<float>()));
  });
  return sharding_.gather.all_gather(layout_.name() + " parameters", rows_, own);
}

void QuantizedGather::bind(const std::vector<Tensor>& tensors) {
  for (const Matrix& matrix : matrices_) {
    const auto on_read = [this, &name = layout_.ranges()[matrix.parameter].name] {
      values_were_read_ = true;
      if (sharding_.device.is_meta()) return;
      throw InternalError("engine", fmt::format("{}: its values were read, which the rehearsal did not do, "
                                                "so it was gathered in e4m3",
                                                name));
    };
    const Tensor rows = rows_.narrow(0, matrix.begin, matrix.end - matrix.begin);
    tensor::TensorStorage::bind_rows(
        tensors[matrix.parameter],
        {rows.view({matrix.rows, matrix.columns}), scales_.narrow(0, matrix.first_row, matrix.rows)}, on_read);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const UnitLayout::Range& range = layout_.ranges()[i];
    const auto holds = [&](const Unquantized& s) { return s.begin <= range.begin && range.end() <= s.end; };
    const auto stretch = std::find_if(unquantized_.begin(), unquantized_.end(), holds);
    if (stretch == unquantized_.end()) continue;
    tensor::TensorStorage::rebind(tensors[i], values_in_bf16_, stretch->at + range.begin - stretch->begin);
  }
}

void QuantizedGather::end() {
  wait_exposed(exchange_, Activity::gather_exposed);
  contributions_ = scales_ = values_in_bf16_ = Tensor();
}

}  // namespace lt::parallel
