// Storage that can be attached and released: the engine does this to parameters, autograd to recomputable values.
#pragma once

#include <functional>

#include "libtrain/tensor/tensor.h"

namespace lt::tensor {

struct TensorStorage {
  // Makes `tensor`, and every copy of its handle, refer to elements() elements of the flat `storage`, starting at
  // `offset`. Throws InternalError if the dtypes differ, `storage` is not contiguous or the range does not fit.
  static void rebind(const Tensor& tensor, const Tensor& storage, Size offset);
  // Lets go of the storage, or of the rows that bind_rows() gave.
  static void unbind(const Tensor& tensor);
  // A matrix in e4m3 [R, C], with a scale for each row, [R] in f32.
  struct Rows {
    Tensor values, scales;
  };
  // Makes `tensor` a deferred matrix that has these rows in place of values, which quantizing values would give.
  // on_read() is called if something asks for values after all; if it returns, they are allocated but not written.
  static void bind_rows(const Tensor& tensor, Rows rows, std::function<void()> on_read);
  // The rows that bind_rows() gave, or null.
  static const Rows* rows(const Tensor& tensor);
  // Writes what a tensor stands for: its values; and its rows in e4m3, with a scale for each, if it has that recipe.
  struct Recipe {
    std::function<void(const Tensor& out)> values;
    std::function<void(const Tensor& values, const Tensor& scales)> quantized = nullptr;
  };
  // A tensor whose values come to exist at the first data() or require_values(). Operations call one of these before a
  // dispatch, so that a rehearsal on meta allocates what a step allocates.
  static Tensor deferred(const Shape& shape, DType dtype, Device device, Recipe recipe);
  static bool is_deferred(const Tensor& tensor);
  // Writes the rows in e4m3. Returns false, and does nothing, if the tensor has values or no such recipe.
  static bool quantize(const Tensor& tensor, const Tensor& values, const Tensor& scales);
  // Lets go of what the recipe holds. A tensor without values must not be used any more.
  static void forget(const Tensor& tensor);
  // Lets release_values() drop the values; `recipe` recomputes them on the next data().
  static void set_recipe(const Tensor& tensor, std::function<void(const Tensor& out)> recipe);
};

}  // namespace lt::tensor
