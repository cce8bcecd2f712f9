// Storage that comes and goes: what the engine does with parameters, and autograd with values that it can recompute.
#pragma once

#include <functional>

#include "libtrain/tensor/tensor.h"

namespace lt {

struct TensorStorage {
  // Makes `tensor`, and every copy of its handle, name elements() elements of the flat `storage` from `offset` on. Same
  // dtype, contiguous; throws InternalError otherwise.
  static void rebind(const Tensor& tensor, const Tensor& storage, Size offset);
  static void unbind(const Tensor& tensor);
  // The values may be dropped by release_values() and are recomputed by `recipe` on the next data().
  static void set_recipe(const Tensor& tensor, std::function<void(const Tensor& out)> recipe);
};

}  // namespace lt
