// Plans and runs the transfers of ranges to their places in a copy.
#include "save/state_copy.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "device/copy_bytes.h"
#include "kernels/elementwise.h"
#include "tensor/host_memory.h"

namespace lt::saver {
namespace {

// Copies with a GPU's copy engine. On the CPU all threads copy, because one thread does not fill the memory bandwidth.
void transfer(const Stream& stream, void* to, const void* from, Size bytes) {
  if (stream.device() != kCpu) return device::copy_bytes(stream, to, from, bytes);
  const DType dtype = bytes % dtype_bytes(DType::f32) == 0 ? DType::f32 : DType::bf16;  // only its size matters
  const kernels::Strided row{.dims = 1, .sizes = {bytes / dtype_bytes(dtype)}, .out = {1}, .a = {1}};
  kernels::copy_strided(CpuStream{}, dtype, row, to, from, false);
}

const std::byte* memory_of(const StateRange& range) { return static_cast<const std::byte*>(range.values.data()); }

// The numbers of the ranges in the order of a copy: blocks of memory by their first range, and each block's ranges by
// address. Where the blocks lie differs from start to start, and copies of an earlier start must fit this one.
std::vector<std::size_t> order_in_copy(const std::vector<StateRange>& ranges) {
  std::vector<std::size_t> order(ranges.size()), first_of_block(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return memory_of(ranges[i]); });
  for (auto begin = order.begin(); begin != order.end();) {
    const auto end = std::find_if(
        begin, order.end(), [&](std::size_t i) { return !ranges[i].values.shares_storage(ranges[*begin].values); });
    const std::size_t first = *std::min_element(begin, end);
    for (; begin != end; ++begin) first_of_block[*begin] = first;
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return first_of_block[i]; });
  return order;
}

}  // namespace

Size state_copy_bytes(const std::vector<StateRange>& ranges) {
  return checkpoint::payload_bytes_of(checkpoint::copy_layout(ranges));
}

StateCopy::StateCopy(Engine& engine, std::vector<StateRange> ranges, bool may_skip)
    : engine_(engine),
      ranges_(std::move(ranges)),
      layout_(ranges_.size()),
      stream_(engine.options().device),
      may_skip_(may_skip || engine.options().dtype == DType::f16 || engine.options().ignored_targets),
      first_loss_scale_(engine.loss_scale()) {
  const std::vector<std::size_t> order = order_in_copy(ranges_);
  std::vector<StateRange> in_memory;
  for (const std::size_t i : order) in_memory.push_back(ranges_[i]);
  const std::vector<checkpoint::CopyRange> places = checkpoint::copy_layout(in_memory);
  for (std::size_t i = 0; i < order.size(); ++i) {
    layout_[order[i]] = places[i];
    const std::byte* const from = memory_of(in_memory[i]);
    const Size bytes = in_memory[i].values.bytes();
    // A transfer must stay in the block of memory in which it begins, even if another block follows directly.
    if (i > 0 && in_memory[i].values.shares_storage(in_memory[i - 1].values) &&
        from - transfers_.back().from == places[i].offset - transfers_.back().offset) {
      transfers_.back().bytes = places[i].offset - transfers_.back().offset + bytes;
    } else {
      transfers_.push_back({from, places[i].offset, bytes});
    }
  }
}

Event StateCopy::start(void* to) const {
  Event updated, copied;
  updated.record(Stream::compute(stream_.device()));
  stream_.wait(updated);
  for (const auto& [from, offset, bytes] : transfers_) {
    transfer(stream_, static_cast<std::byte*>(to) + offset, from, bytes);
  }
  copied.record(stream_);
  engine_.hold_update_for(stream_);
  return copied;
}

LossScale StateCopy::loss_scale() const { return may_skip_ ? engine_.loss_scale() : first_loss_scale_; }

std::vector<StateRange> StateCopy::ranges_in(const std::shared_ptr<void>& copy) const {
  std::vector<StateRange> ranges = ranges_;
  std::map<DType, Tensor> all;  // the whole copy as a tensor of each dtype
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const DType dtype = layout_[i].dtype;
    const Size element = dtype_bytes(dtype);
    if (!all[dtype].defined()) all[dtype] = tensor::tensor_over(copy, bytes() / element, dtype);
    ranges[i].values = all[dtype].narrow(0, layout_[i].offset / element, ranges[i].end - ranges[i].begin);
  }
  return ranges;
}

}  // namespace lt::saver
