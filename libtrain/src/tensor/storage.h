// Storage that can be attached and released: the engine does this to parameters, autograd to recomputable values.
#pragma once

#include <functional>

#include "libtrain/tensor/tensor.h"

namespace lt {

struct TensorStorage {
  // Makes `tensor`, and every copy of its handle, refer to elements() elements of the flat `storage`, starting at
  // `offset`. Throws InternalError if the dtypes differ, `storage` is not contiguous or the range does not fit.
  static void rebind(const Tensor& tensor, const Tensor& storage, Size offset);
  static void unbind(const Tensor& tensor);
  // Lets release_values() drop the values; `recipe` recomputes them on the next data().
  static void set_recipe(const Tensor& tensor, std::function<void(const Tensor& out)> recipe);
};

}  // namespace lt
