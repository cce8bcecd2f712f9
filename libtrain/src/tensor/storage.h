// Attaches storage to tensors and releases it. The engine uses this for parameters, autograd for recomputable values.
#pragma once

#include <functional>
#include <memory>

#include "libtrain/device/context.h"
#include "libtrain/tensor/tensor.h"

namespace lt::tensor {

struct TensorStorage {
  // Makes `tensor`, and every copy of its handle, refer to elements() elements of the flat `storage`, starting at
  // `offset`. Throws InternalError if the dtypes differ, `storage` is not contiguous or the range does not fit.
  static void rebind(const Tensor& tensor, const Tensor& storage, Size offset);
  // Releases the storage, or the rows of bind_rows().
  static void unbind(const Tensor& tensor);
  // A matrix in e4m3 [R, C], with a scale for each row, [R] in f32.
  struct Rows {
    Tensor values, scales;
  };
  // Makes `tensor` a deferred matrix that has only these quantized rows, no values. If an operation still reads values,
  // calls on_read(); if that returns, values are allocated but not written.
  static void bind_rows(const Tensor& tensor, Rows rows, std::function<void()> on_read);
  // Returns the rows of bind_rows(), or null.
  static const Rows* rows(const Tensor& tensor);
  // Functions that compute a deferred tensor: its values and, if not null, its rows in e4m3 with a scale for each row.
  struct Recipe {
    std::function<void(const Tensor& out)> values;
    std::function<void(const Tensor& values, const Tensor& scales)> quantized = nullptr;
  };
  // Returns a tensor whose values are computed at the first data() or require_values(). Operations call one of these
  // before a dispatch, so that a rehearsal (a dry run of the step on the meta device) allocates the same as a step.
  static Tensor deferred(const Shape& shape, DType dtype, Device device, Recipe recipe);
  static bool is_deferred(const Tensor& tensor);
  // Writes the rows in e4m3. Returns false, and does nothing, if the tensor has values or no such recipe.
  static bool quantize(const Tensor& tensor, const Tensor& values, const Tensor& scales);
  // Releases the recipe and the memory that it holds. A tensor without values must not be used after that.
  static void forget(const Tensor& tensor);
  // The body of a unit that made the tensor, or the tensor of which it is a view; null: made outside of bodies.
  static const std::shared_ptr<const UnitBody>& body(const Tensor& tensor);
  // Makes `tensor` one that `body` made.
  static void set_body(const Tensor& tensor, std::shared_ptr<const UnitBody> body);
  // Allows release_values() to drop the values. `recipe` recomputes them at the next data().
  static void set_recipe(const Tensor& tensor, std::function<void(const Tensor& out)> recipe);
};

}  // namespace lt::tensor
