// Reads the gradients of the last step: this rank's ranges, whole gradients, and their norms.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "comm/value_exchange.h"
#include "device/device_turn.h"
#include "kernels/reduce.h"
#include "libtrain/error.h"
#include "optim/groups.h"
#include "parallel/engine_impl.h"
#include "tensor/dispatch.h"

namespace lt {

std::vector<StateRange> Engine::gradients() const {
  impl_->require_sound();
  if (impl_->steps_of_engine == 0) throw UsageError("engine", "gradients: expected a step of this engine, found none");
  std::vector<StateRange> ranges;
  for (const parallel::ShardedUnit& unit : impl_->units) {
    if (unit.is_trained()) unit.add_gradients_to(ranges);
  }
  return ranges;
}

Tensor Engine::gradient(const std::string& parameter) const {
  const device::DeviceTurn turn(impl_->options.device);
  const std::vector<StateRange> ranges = gradients();
  const std::vector<nn::NamedParameter> all = impl_->model.all_parameters();
  const auto found = std::ranges::find(all, parameter, &nn::NamedParameter::name);
  if (found == all.end() || optim::is_frozen(impl_->optimizers, parameter)) {
    throw UsageError("engine", "gradient: parameter", "the name of a trained parameter", parameter);
  }
  std::string mine;
  for (const StateRange& range : ranges) {
    if (range.parameter != parameter) continue;
    const std::vector<float> values = range.values.to_vector<float>();
    mine = comm::bytes_of(range.begin);
    mine.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  }
  const Tensor whole = Tensor::empty(found->parameter->shape(), DType::f32);
  for (const std::string& part : impl_->control.all_gather_bytes(mine)) {
    if (part.empty()) continue;
    const auto begin = comm::value_of_rank<Size>(std::string_view(part).substr(0, sizeof(Size)));
    std::memcpy(whole.data<float>() + begin, part.data() + sizeof(Size), part.size() - sizeof(Size));
  }
  const float loss_scale = impl_->scalars.outcome.read().loss_scale;
  if (loss_scale == 1) return whole;
  for (Size i = 0; i < whole.elements(); ++i) whole.data<float>()[i] /= loss_scale;
  return whole;
}

std::vector<GradientNorm> Engine::gradient_norms() const {
  const device::DeviceTurn turn(impl_->options.device);
  const std::vector<StateRange> ranges = gradients();
  const Tensor squares = Tensor::zeros({static_cast<Size>(ranges.size())}, DType::f64, impl_->options.device);
  tensor::dispatch(impl_->options.device, [&](auto stream) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      kernels::sum_squares(stream, DType::f32, squares.data<double>() + i, ranges[i].values.data(),
                           ranges[i].end - ranges[i].begin);
    }
  });
  std::map<std::string, double> own;
  const std::vector<double> sums = squares.to_vector<double>();
  for (std::size_t i = 0; i < ranges.size(); ++i) own[ranges[i].parameter] += sums[i];
  std::vector<GradientNorm> norms;
  std::string mine;
  for (const nn::NamedParameter& entry : impl_->model.all_parameters()) {
    if (optim::is_frozen(impl_->optimizers, entry.name)) continue;
    norms.push_back({entry.name, 0});
    mine += comm::bytes_of(own[entry.name]);
  }
  const double loss_scale = impl_->scalars.outcome.read().loss_scale;
  for (const std::string& part : impl_->control.all_gather_bytes(mine)) {
    for (std::size_t i = 0; i < norms.size(); ++i) {
      norms[i].norm += comm::value_of_rank<double>(std::string_view(part).substr(i * sizeof(double), sizeof(double)));
    }
  }
  for (GradientNorm& entry : norms) entry.norm = std::sqrt(entry.norm) / loss_scale;
  return norms;
}

}  // namespace lt
