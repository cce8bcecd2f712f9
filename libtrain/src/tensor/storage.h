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
  // A tensor that is not bound: its values come to exist at the first data(), by set_recipe().
  static Tensor without_values(const Shape& shape, DType dtype, Device device);
  // Lets quantize() write what the tensor stands for, in e4m3 with a scale for each row, without its values.
  using Quantize = std::function<void(const Tensor& values, const Tensor& scales)>;
  static void set_quantize(const Tensor& tensor, Quantize quantize);
  // Returns false, and does nothing, if the tensor has values or cannot.
  static bool quantize(const Tensor& tensor, const Tensor& values, const Tensor& scales);
  // Lets release_values() drop the values; `recipe` recomputes them on the next data().
  static void set_recipe(const Tensor& tensor, std::function<void(const Tensor& out)> recipe);
};

}  // namespace lt
