// The tree of modules, its named parameters with their initial values, and its buffers.
#include "libtrain/nn/module.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/random.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "libtrain/memory/memory.h"
#include "libtrain/tensor/autograd.h"
#include "memory/allocation.h"
#include "tensor/dispatch.h"

namespace lt::nn {

std::vector<Size> Parameter::matrix_rows() const {
  if (shape_.dims() != 2) return {};
  return matrix_rows_.empty() ? std::vector<Size>{shape_[0]} : matrix_rows_;
}

void Parameter::set_matrix_rows(std::vector<Size> rows) {
  const bool positive = std::all_of(rows.begin(), rows.end(), [](Size r) { return r > 0; });
  const Size sum = std::accumulate(rows.begin(), rows.end(), Size{0});
  if (!rows.empty() && (shape_.dims() != 2 || !positive || sum != shape_[0])) {
    throw UsageError("nn", "matrices of a parameter " + to_string(shape_) + ": expected rows that add up to its own, " +
                               "found " + std::to_string(rows.size()) + " of " + std::to_string(sum) + " in all");
  }
  matrix_rows_ = std::move(rows);
}

const Tensor& Parameter::tensor() const {
  if (!tensor_.defined()) {
    throw UsageError(
        "nn", "a parameter " + to_string(shape_) + " is used before the model was given to an engine or materialize()");
  }
  return tensor_;
}

Buffer::Buffer(std::string name, const Tensor& values) : name_(std::move(name)) {
  if (!values.defined() || values.device() != kCpu) {
    throw UsageError("nn", "buffer " + name_ + ": expected values on the CPU, got " +
                               (values.defined() ? "a tensor on " + to_string(values.device()) : "none"));
  }
  const memory::UncountedMemoryScope uncounted;
  values_ = Tensor::empty(values.shape(), values.dtype(), kCpu);
  copy(values_, values);
}

Tensor Buffer::copy_on(Device device, DType dtype) const {
  const MemoryScope owner(MemoryOwner::constants);
  const Tensor result = Tensor::empty(values_.shape(), is_floating(values_.dtype()) ? dtype : values_.dtype(), device);
  if (!device.is_meta()) copy(result, values_);
  return result;
}

const Tensor& Buffer::tensor() const {
  if (!tensor_.defined()) {
    throw UsageError("nn", "buffer " + name_ + " is used before the model was given to an engine or materialize()");
  }
  return tensor_;
}

std::vector<NamedParameter> Module::parameters(const std::string& prefix) const {
  std::vector<NamedParameter> result;
  const std::string dot = prefix.empty() ? "" : prefix + ".";
  for (const auto& [name, parameter] : parameters_) result.push_back({dot + name, parameter.get()});
  for (const auto& [name, child] : children_) {
    for (NamedParameter& inner : child->parameters(dot + name)) result.push_back(std::move(inner));
  }
  return result;
}

Parameter& Module::add_parameter(std::string name, const Shape& shape, Init init) {
  require_no_path(name);
  parameters_.emplace_back(std::move(name), std::make_unique<Parameter>(shape, init));
  return *parameters_.back().second;
}

std::vector<Buffer*> Module::buffers() const {
  std::vector<Buffer*> result;
  for (const auto& buffer : buffers_) result.push_back(buffer.get());
  for (const auto& [name, child] : children_) {
    for (Buffer* const inner : child->buffers()) result.push_back(inner);
  }
  return result;
}

Buffer& Module::add_buffer(std::string name, const Tensor& values) {
  require_no_path(name);
  return *buffers_.emplace_back(std::make_unique<Buffer>(std::move(name), values));
}

void Module::require_no_path(const std::string& child) const {
  if (path_.empty()) return;
  throw UsageError(
      "nn", "expected parameters, buffers and children to be made in the constructor of their parent, got " + child +
                " after " + path_ + " became part of a unit");
}

void Module::set_path(const std::string& path) {
  path_ = path;
  for (const auto& [name, child] : children_) child->set_path(path + "." + name);
}

void Model::append_unit(Module& module, const std::string& name, bool is_block) {
  module.set_path(name);
  units_.push_back({name, &module, is_block, {}});
  if (!is_block) return;
  for (const NamedParameter& entry : module.parameters()) entry.parameter->put_in_block();
}

std::vector<NamedParameter> Model::all_parameters() const {
  std::vector<NamedParameter> result;
  for (const UnitInfo& unit : units_) {
    for (NamedParameter& inner : unit.module->parameters(unit.name)) result.push_back(std::move(inner));
  }
  return result;
}

Batch Model::batch_on_meta(Size samples, Size seq) const {
  const Shape shape{samples, seq};
  return {Tensor::empty(shape, DType::i32, kMeta), Tensor::empty(shape, DType::i32, kMeta)};
}

Size Model::parameter_count() const {
  Size count = 0;
  for (const NamedParameter& entry : all_parameters()) count += entry.parameter->shape().elements();
  return count;
}

void Model::borrow(const Module& user, const Module& owner) {
  const int of_user = index_of(user), of_owner = index_of(owner);
  UnitInfo& unit = units_[static_cast<std::size_t>(of_user)];
  if (of_owner >= of_user) {
    throw UsageError("nn", "borrow(): expected an owner among the units before " + unit.name + ", got " +
                               units_[static_cast<std::size_t>(of_owner)].name);
  }
  unit.borrows.push_back(of_owner);
}

int Model::index_of(const Module& unit) const {
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (units_[i].module == &unit) return static_cast<int>(i);
  }
  throw UsageError("nn", "expected a unit of the model, got a module that neither add_unit() nor add_block() made");
}

void Model::materialize_buffers(Device device, DType dtype) {
  observer_ = nullptr;  // an engine of this model binds it again at its next pass
  for (Buffer* const buffer : buffers()) buffer->bind(buffer->copy_on(device, dtype));
}

void Model::materialize(Device device, DType dtype, std::uint64_t seed) {
  materialize_buffers(device, dtype);
  const MemoryScope owner(MemoryOwner::parameters);
  for (const NamedParameter& entry : all_parameters()) {
    Parameter& parameter = *entry.parameter;
    Tensor tensor = Tensor::empty(parameter.shape(), dtype, device);
    if (!device.is_meta()) initial_values(tensor, entry.name, parameter.init(), seed, 0);
    tensor.set_requires_grad();
    parameter.bind(std::move(tensor));
  }
}

void initial_values(const Tensor& values, const std::string& name, Init init, std::uint64_t seed, Size begin) {
  if (init.deviation == 0) return fill(values, init.mean);
  tensor::dispatch(values.device(), [&](auto stream) {
    kernels::fill_normal(stream, values.dtype(), values.data(), derive_key(seed, name),
                         static_cast<std::uint64_t>(begin), values.elements(), init.mean, init.deviation);
  });
}

}  // namespace lt::nn
