// Argument checks of operations. They throw UsageError that names operation, argument, expected and actual value.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/common.h"
#include "kernels/id_check.h"
#include "libtrain/error.h"
#include "libtrain/ops/ops.h"
#include "libtrain/tensor/autograd.h"
#include "libtrain/tensor/tensor.h"

namespace lt::ops {

[[noreturn]] void fail(std::string_view op, std::string_view argument, const std::string& expected,
                       const std::string& actual, const std::string& hint = {});

// Defined, contiguous, floating point.
void require_float(std::string_view op, std::string_view argument, const Tensor& tensor);
// i32, on the device of `like`.
void require_i32(std::string_view op, std::string_view argument, const Tensor& tensor, const Tensor& like);
// Every id is in [0, V), or kIgnoredTarget if `may_ignore`. On the CPU this function checks the values. On a GPU the
// kernel that gets the result checks them, and the error is thrown later (tensor/id_checks.h). `op` and `argument` must
// be string literals.
kernels::IdCheck require_ids(std::string_view op, std::string_view argument, const Tensor& ids, Size V,
                             bool may_ignore = false);
void require_shape(std::string_view op, std::string_view argument, const Tensor& tensor, const Shape& shape);
void require_min_dims(std::string_view op, std::string_view argument, const Tensor& tensor, int dims);
// Floating point, with the dtype and device of `like`.
void require_like(std::string_view op, std::string_view argument, const Tensor& tensor, const Tensor& like);

// Rows [query heads | key heads | value heads] of shape [B, T, heads.row()], with heads a multiple of kv_heads.
void require_packed_rows(std::string_view op, const Tensor& qkv, const Heads& heads);

// Undefined, or i32 [B, T] for B sequences of T tokens whose first position `first` is 0, on the device of `like`.
void require_document_starts(std::string_view op, const Tensor& document_starts, Size B, Size T, Size first,
                             const Tensor& like);
// Returns the values of document starts for kernels; null if they are undefined.
inline const std::int32_t* starts_of(const Tensor& document_starts) {
  return document_starts.defined() ? document_starts.data_or_null<std::int32_t>() : nullptr;
}

// weight [N, K] of a matmul with rows of K channels, with the dtype and device of `x`. Both sizes are at least 1.
// `rows`: the name of N in the message.
void require_weight(std::string_view op, std::string_view name, const Tensor& weight, const Tensor& x, Size K,
                    const char* rows = "N");

// x [..., C], a norm's weight [C].
void check_norm(std::string_view op, std::string_view weight_name, const Tensor& x, const Tensor& weight);

using NamedTensors = std::initializer_list<std::pair<std::string_view, const Tensor*>>;
// Throws if two of the tensors are the same, because one kernel writes all their gradients and cannot add two of them.
void require_distinct(std::string_view op, NamedTensors tensors);

// Returns the index of a dimension, counting from the end if `dim` is negative. Throws if it is out of range.
int require_dim(std::string_view op, const Tensor& tensor, int dim);

// The product of all sizes except the last: the rows of a tensor of channels.
inline Size rows(const Tensor& x) { return x.dims() == 0 ? 1 : x.elements() / std::max<Size>(x.dim(-1), 1); }
// Views the tensor as [O, R, I] around one of its dimensions.
inline kernels::MiddleShape middle_of(const Tensor& x, int dim) {
  kernels::MiddleShape m{1, 1, 1};
  for (int i = 0; i < x.dims(); ++i) (i < dim ? m.O : i == dim ? m.R : m.I) *= x.dim(i);
  return m;
}
// Returns `x`'s shape with its last size replaced.
Shape with_last(const Tensor& x, Size last);

// The memory into which an operation's backward writes one gradient of type `dtype`. It is the slot itself or, if the
// slot's dtype differs, a temporary that finish() adds to the slot. Without a slot data() is null; kernels then skip
// the gradient. The gradient may take the storage `reusable` if the slot is still empty.
class GradientOutput {
 public:
  GradientOutput(const Slot& slot, DType dtype, Tensor reusable = {}) : slot_(slot) {
    if (slot == nullptr) return;
    if (slot->dtype == dtype) {
      if (!slot->value.defined()) slot->value = std::move(reusable);
      target_ = slot->next();
    } else {
      target_ = {Tensor::empty(slot->shape, dtype, slot->device), false};
      temporary_ = true;
    }
  }

  bool wanted() const { return slot_ != nullptr; }
  void* data() const { return wanted() ? target_.dst.data_or_null() : nullptr; }
  bool accumulate() const { return target_.accumulate; }
  void finish() {
    if (temporary_) slot_->add(std::move(target_.dst));
    temporary_ = false;
  }

 private:
  Slot slot_;
  GradientTarget target_{{}, false};
  bool temporary_ = false;
};

}  // namespace lt::ops
