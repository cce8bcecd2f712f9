// Allocates and gathers parameters, and binds the model's tensors to them.
#include "parallel/gathered_parameters.h"

#include <utility>

#include "libtrain/memory/memory.h"
#include "parallel/exposed_wait.h"
#include "parallel/flat_buffer.h"
#include "tensor/storage.h"

namespace lt::parallel {

GatheredParameters::GatheredParameters(UnitLayout layout, const Sharding& sharding, bool are_trained, bool gathers_late)
    : layout_(std::move(layout)),
      sharding_(sharding),
      shard_(layout_.padded() / sharding.gather.size()),
      shard_begin_(shard_ * sharding.gather.rank()),
      are_trained_(are_trained),
      gathers_late_(gathers_late) {
  for (const UnitLayout::Range& range : layout_.ranges()) {
    Tensor tensor = Tensor::unbound(range.parameter->shape(), sharding_.dtype, sharding_.device, range.name);
    if (are_trained) tensor.set_requires_grad();
    tensors_.push_back(std::move(tensor));
  }
  if (!exist() || !are_sharded() || sharding_.dtype != DType::bf16) return;
  quantized_.emplace(layout_, shard(), sharding_);
  if (!quantized_->is_useful()) quantized_.reset();
}

// The model outlives this object. Unbinding frees the memory of a failed step, and drops callbacks into these buffers.
GatheredParameters::~GatheredParameters() {
  if (!are_sharded()) return;
  for (const Tensor& tensor : tensors_) tensor::TensorStorage::unbind(tensor);
}

UnitPart GatheredParameters::held() const { return are_sharded() ? shard() : UnitPart{0, layout_.padded()}; }

void GatheredParameters::make() {
  if (!exist()) return;
  compute_ = flat_zeros(held().size, sharding_.dtype, sharding_.device, MemoryOwner::parameters,
                        are_trained_ ? sharding_.parameter_source() : nullptr);
  if (are_sharded()) return;
  full_ = compute_;
  gathered_ = true;
  bind(full_);
}

void GatheredParameters::bind_model() {
  for (std::size_t i = 0; i < tensors_.size(); ++i) layout_.ranges()[i].parameter->bind(tensors_[i]);
}

void GatheredParameters::bind(const Tensor& full) {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    tensor::TensorStorage::rebind(tensors_[i], full, layout_.ranges()[i].begin);
}

void GatheredParameters::end_gathers() {
  if (std::exchange(in_e4m3_, false)) quantized_->end();
}

void GatheredParameters::allocate() {
  if (!exist() || full_.defined()) return;
  full_ = flat_uninitialised(layout_.padded(), sharding_.dtype, sharding_.device, MemoryOwner::parameters);
  bind(full_);
}

void GatheredParameters::prepare_gather() {
  if (in_e4m3_) quantized_->prepare(compute_);
}

void GatheredParameters::start_gather() {
  if (!exist()) return;
  start_late_gather();
  if (std::exchange(gathered_, true)) return;
  if (in_e4m3_) {
    gather_ = quantized_->start(compute_);
    return quantized_->bind(tensors_);
  }
  allocate();
  gather_ = sharding_.gather.all_gather(layout_.name() + " parameters", full_, compute_);
}

void GatheredParameters::finish_gather() { wait_exposed(gather_, Activity::gather_exposed); }

void GatheredParameters::release() {
  if (!exist() || !are_sharded()) return;
  finish_gather();
  free_full();
}

void GatheredParameters::abandon() {
  gather_ = Work();  // during stack unwinding its destructor does not wait
  if (exist() && are_sharded()) free_full();
}

void GatheredParameters::free_full() {
  for (const Tensor& tensor : tensors_) tensor::TensorStorage::unbind(tensor);
  full_ = Tensor();
  if (in_e4m3_) quantized_->release();
  gathered_ = false;
}

void GatheredParameters::start_update_gather() {
  if (!exist() || are_sharded() || !sharding_.gathers_parameters()) return;
  update_gather_is_late_ = true;
  if (!gathers_late_) start_late_gather();
}

void GatheredParameters::start_late_gather() {
  if (!std::exchange(update_gather_is_late_, false)) return;
  gather_ = sharding_.gather.all_gather(layout_.name() + " parameters", compute_, values(shard()));
}

}  // namespace lt::parallel
