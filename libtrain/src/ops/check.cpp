// Formats the errors of argument checks.
#include "ops/check.h"

#include <fmt/format.h>

#include "libtrain/device/context.h"
#include "libtrain/kernels/ignored_target.h"
#include "tensor/id_checks.h"

namespace lt::ops {

void fail(std::string_view op, std::string_view argument, const std::string& expected, const std::string& actual,
          const std::string& hint) {
  throw UsageError("ops", std::string(op) + ": " + std::string(argument) + ": expected " + expected + ", got " + actual,
                   hint);
}

namespace {

void require_present(std::string_view op, std::string_view argument, const Tensor& tensor) {
  if (!tensor.defined()) fail(op, argument, "a tensor", "none");
  if (!tensor.is_contiguous()) fail(op, argument, "a contiguous tensor", "strides " + to_string(tensor.strides()));
}

void require_device_of(std::string_view op, std::string_view argument, const Tensor& tensor, const Tensor& like) {
  if (tensor.device() == like.device()) return;
  fail(op, argument, to_string(like.device()), to_string(tensor.device()),
       "a constant of a model is an nn::Buffer, or is made on the device of another tensor: x.device()");
}

}  // namespace

void require_float(std::string_view op, std::string_view argument, const Tensor& tensor) {
  require_present(op, argument, tensor);
  if (!is_floating(tensor.dtype())) {
    fail(op, argument, "f32, f64, bf16 or f16", std::string(dtype_name(tensor.dtype())));
  }
}

void require_i32(std::string_view op, std::string_view argument, const Tensor& tensor, const Tensor& like) {
  require_present(op, argument, tensor);
  if (tensor.dtype() != DType::i32) fail(op, argument, "i32", std::string(dtype_name(tensor.dtype())));
  require_device_of(op, argument, tensor, like);
}

kernels::IdCheck require_ids(std::string_view op, std::string_view argument, const Tensor& ids, Size V,
                             bool may_ignore) {
  if (tensor::IdChecks* const checks = tensor::IdChecks::on(ids.device())) {
    kernels::IdCheck check = checks->add(tensor::use_of(op, argument, ids, V, checks), ids);
    check.may_ignore = may_ignore;
    return check;
  }
  if (ids.device() != kCpu) return {};
  const std::int32_t* const values = ids.data<std::int32_t>();
  const auto is_outside = [=](Size i) {
    return (values[i] < 0 || values[i] >= V) && !(may_ignore && values[i] == kIgnoredTarget);
  };
  Size outside = 0;  // counting vectorises, a search with an early exit does not
  for (Size i = 0; i < ids.elements(); ++i) outside += is_outside(i) ? 1 : 0;
  if (outside == 0) return {};
  Size first = 0;
  while (!is_outside(first)) ++first;
  const tensor::IdChecks* const of_step = Context::current().ids;
  tensor::refuse_id(tensor::use_of(op, argument, ids, V, of_step),
                    first + (of_step != nullptr ? of_step->position_of(ids) : 0), values[first]);
}

void require_shape(std::string_view op, std::string_view argument, const Tensor& tensor, const Shape& shape) {
  if (!(tensor.shape() == shape)) fail(op, argument, "shape " + to_string(shape), to_string(tensor.shape()));
}

void require_min_dims(std::string_view op, std::string_view argument, const Tensor& tensor, int dims) {
  if (tensor.dims() < dims) {
    fail(op, argument, "at least " + std::to_string(dims) + " dimensions", "shape " + to_string(tensor.shape()));
  }
}

void require_like(std::string_view op, std::string_view argument, const Tensor& tensor, const Tensor& like) {
  require_float(op, argument, tensor);
  if (tensor.dtype() != like.dtype()) {
    const std::string expected(dtype_name(like.dtype()));
    const std::string actual(dtype_name(tensor.dtype()));
    std::string hint = "ops::cast(" + std::string(argument) + ", DType::" + expected + ") converts it";
    if (dtype_bytes(tensor.dtype()) < dtype_bytes(like.dtype())) {
      hint += "; for a batch of " + expected + " in a computation in " + actual +
              " convert the batch: ops::cast(batch, DType::" + actual + ")";
    }
    fail(op, argument, expected, actual, hint);
  }
  require_device_of(op, argument, tensor, like);
}

void require_packed_rows(std::string_view op, const Tensor& qkv, const Heads& heads) {
  require_float(op, "qkv", qkv);
  if (heads.heads < 1 || heads.kv_heads < 1 || heads.heads % heads.kv_heads != 0) {
    fail(op, "heads", "a multiple of kv_heads " + std::to_string(heads.kv_heads), std::to_string(heads.heads));
  }
  if (qkv.dims() != 3 || qkv.dim(2) != heads.row()) {
    fail(op, "qkv", "shape [B, T, " + std::to_string(heads.row()) + "]", to_string(qkv.shape()));
  }
}

void require_document_starts(std::string_view op, const Tensor& document_starts, Size B, Size T, Size first,
                             const Tensor& like) {
  if (!document_starts.defined()) return;
  require_i32(op, "document_starts", document_starts, like);
  require_shape(op, "document_starts", document_starts, {B, T});
  if (first != 0) fail(op, "first", "0 with document_starts", std::to_string(first));
}

void require_weight(std::string_view op, std::string_view name, const Tensor& weight, const Tensor& x, Size K,
                    const char* rows) {
  require_like(op, name, weight, x);
  if (weight.dims() != 2 || weight.dim(1) != K) {
    fail(op, name, fmt::format("shape [{}, {}]", rows, K), to_string(weight.shape()));
  }
  if (weight.elements() == 0) fail(op, name, "sizes of at least 1", to_string(weight.shape()));
}

void check_norm(std::string_view op, std::string_view weight_name, const Tensor& x, const Tensor& weight) {
  require_float(op, "x", x);
  require_min_dims(op, "x", x, 1);
  require_like(op, weight_name, weight, x);
  require_shape(op, weight_name, weight, {x.dim(-1)});
}

void require_distinct(std::string_view op, NamedTensors tensors) {
  for (const auto* b = tensors.begin(); b != tensors.end(); ++b) {
    for (const auto* a = tensors.begin(); a != b; ++a) {
      if (!b->second->defined() || !b->second->is_same(*a->second)) continue;
      fail(op, b->first, fmt::format("a tensor other than {}", a->first), "the same");
    }
  }
}

int require_dim(std::string_view op, const Tensor& tensor, int dim) {
  const int index = dim < 0 ? dim + tensor.dims() : dim;
  if (index < 0 || index >= tensor.dims()) {
    fail(op, "dim", "a dimension of shape " + to_string(tensor.shape()), std::to_string(dim));
  }
  return index;
}

Shape with_last(const Tensor& x, Size last) {
  Shape shape = x.shape();
  shape[-1] = last;
  return shape;
}

}  // namespace lt::ops
