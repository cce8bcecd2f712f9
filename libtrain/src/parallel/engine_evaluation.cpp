// Uses of an engine's parameters outside of steps: evaluation, and functions of the caller (with_parameters()).
#include <string>
#include <utility>

#include "device/device_turn.h"
#include "kernels/loss.h"
#include "libtrain/device/phase.h"
#include "libtrain/error.h"
#include "parallel/engine_impl.h"
#include "profile/activity_clock.h"
#include "tensor/dispatch.h"

namespace lt {

std::vector<BatchLoss> Engine::evaluate(const Batch& batch) {
  Impl& impl = *impl_;
  const PhaseScope phase(Phase::evaluation, impl.options.device);
  const device::DeviceTurn turn(impl.options.device);
  impl.require_sound();
  // A rank that knows its shapes would not take part in the rehearsal of one that does not.
  impl.require_same_shapes(Impl::kEvaluation, batch);
  if (!batch.inputs.defined() || batch.inputs.dims() == 0) {
    throw UsageError("engine", "batch.inputs: expected samples, got none");
  }
  impl.bind_model_again();
  impl.make_ready(impl.evaluation_slot, batch);
  impl.run(Impl::kEvaluation, batch);
  impl.attempt([&] { impl.slot->finish(); });
  return std::exchange(impl.evaluated, {});
}

const Engine::Impl::Pass Engine::Impl::kEvaluation{
    "evaluation", [](Impl& engine, const Batch& batch) { engine.evaluate(batch); }, false,
    "fill the last batch up with samples whose targets are kIgnoredTarget"};

// Each rank contributes its loss and the number of its counted targets.
void Engine::Impl::evaluate(const Batch& given) {
  begin_gathers();
  const Batch batch = slot->on_device(given);
  ids.begin_at_sample(0, batch.inputs.dim(0));
  schedule->begin_evaluation();
  const nn::ForwardScope context({});
  const TapeScope no_recording(nullptr);
  const Tensor all = Tensor::zeros({2 * control.size()}, DType::f32, options.device);
  const Tensor own = all.narrow(0, 2 * control.rank(), 2), counted = own.narrow(0, 1, 1);
  const Tensor& targets = batch.targets;
  copy(own.narrow(0, 0, 1), in_f32(model.loss(batch)).view({1}));
  if (targets.defined() && targets.dtype() == DType::i32) {
    tensor::dispatch(options.device, [&](auto stream) {
      kernels::count_targets(stream, counted.template data<float>(), 1, targets.template data<std::int32_t>(),
                             targets.elements());
    });
  } else {
    fill(counted, static_cast<double>(batch.inputs.dim(0)));
  }
  schedule->end_pass();
  end_gathers();
  const profile::ActivityScope activity(Activity::reduce_exposed);
  control.all_gather("loss", all, own).wait();
  if (options.device.is_meta()) return;
  const std::vector<float> values = all.to_vector<float>();
  for (std::size_t i = 0; i < values.size(); i += 2) evaluated.push_back({values[i], values[i + 1]});
}

void Engine::with_parameters(const std::function<void()>& body) {
  Impl& impl = *impl_;
  const device::DeviceTurn turn(impl.options.device);
  impl.require_sound();
  const ContextScope scope(impl.context(Context::current()));
  const ContextMemberScope<&Context::ids> ids(nullptr);  // what the body looks up is not a step's
  struct Restore {                                       // even if the body throws
    Impl& engine;
    bool gathering = false;
    ~Restore() {
      engine.lends_parameters = false;
      engine.bind_model();  // the body may have used another engine of the model
      // Gathers that failed are not waited for: a peer may be gone.
      if (gathering) engine.failed = true;
      for (parallel::ShardedUnit& unit : engine.units) gathering ? unit.abandon() : unit.release();
    }
  } restore{impl};
  impl.bind_model_again();
  collectively(impl.control, [&] {
    for (parallel::ShardedUnit& unit : impl.units) unit.allocate();
  });
  restore.gathering = true;
  for (parallel::ShardedUnit& unit : impl.units) unit.start_gather();
  for (parallel::ShardedUnit& unit : impl.units) unit.finish_gather();
  restore.gathering = false;
  impl.lends_parameters = true;
  impl.model.set_observer(nullptr);
  const TapeScope no_recording(nullptr);
  body();
}

}  // namespace lt
