// Rehearses a pass on shapes alone: its memory, its collectives, and how its units are gathered. The ranks compare them
// before the pass runs.
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/call_log.h"
#include "comm/same_calls.h"
#include "libtrain/memory/memory.h"
#include "parallel/engine_impl.h"
#include "profile/work_count.h"

namespace lt {

void Engine::rehearse(const Batch& step, const std::optional<Batch>& evaluation) {
  Impl& impl = *impl_;
  impl.require_own_parameters();
  if (!impl.options.arena) return;
  try {
    collectively(impl.control, [&] {
      impl.memory.prepare(kStepName, step, impl.rehearsal(&Impl::step));
      if (evaluation) impl.memory.prepare(kEvaluationName, *evaluation, impl.rehearsal(&Impl::evaluate));
    });
  } catch (...) {
    impl.forget_uncompared();
    throw;
  }
  std::vector<std::string> keys;
  for (const Impl::RehearsedCalls& rehearsed : impl.uncompared) keys.push_back(rehearsed.key);
  impl.compare_with_other_ranks();
  impl.or_forget(keys, [&] { collectively(impl.control, [&] { impl.memory.reserve(); }); });
}

void Engine::Impl::compare_with_other_ranks() {
  try {
    for (const RehearsedCalls& rehearsed : uncompared) {
      require_same_calls(rehearsed.name, rehearsed.calls, control);
      if (sharding.arena_source() != nullptr) require_same_places(*memory.plans().at(rehearsed.key), sharding.gather);
    }
  } catch (...) {
    forget_uncompared();
    throw;
  }
  for (RehearsedCalls& rehearsed : uncompared) compared.push_back(std::move(rehearsed.key));
  uncompared.clear();
  for (; compared.size() > kMostPlans; compared.pop_front()) forget(compared.front());
}

void Engine::Impl::forget_uncompared() {
  for (const RehearsedCalls& rehearsed : uncompared) forget(rehearsed.key);
  uncompared.clear();
}

void Engine::Impl::forget(const std::string& key) {
  memory.forget(key);
  forms.erase(key);
}

StepMemory::Rehearsal Engine::Impl::rehearsal(PassFunction function) {
  return [this, function](const std::string& name, const Batch& shapes) {
    struct Restore {  // even if the rehearsal throws
      Impl& engine;
      ~Restore() { engine.bind_model(); }
    } const restore{*this};
    const ContextScope scope(context(Context::silent()));
    WorkCount work;
    const WorkScope counting(&work);
    StepOptions on_meta = options;
    on_meta.device = meta_for(options.device);
    const Group group = control.on_meta(options.device);
    Impl twin(model, make_sharding(group, parallel, on_meta), parallel, optimizers, on_meta);
    twin.make_shared();
    twin.form.in_e4m3.assign(units.size(), options.fp8);
    (twin.*function)(shapes);  // the second run is like all later ones: parameters are in flight when it starts
    for (std::size_t i = 0; i < units.size(); ++i) {
      twin.form.in_e4m3[i] = twin.form.in_e4m3[i] && !twin.units[i].values_were_read();
    }
    if (function == &Impl::step) has_fp8_products |= work.quantized_flops > 0;
    std::vector<std::string> calls;
    MemoryPlan recorded = record_memory_plan(name, on_meta.device, [&] {
      const CallListScope list(&calls);
      (twin.*function)(shapes);
    });
    uncompared.push_back({name, plan_key(name, shapes), std::move(calls)});
    makes_host_values |= twin.makes_host_values;
    forms[plan_key(name, shapes)] = twin.form;
    return recorded;
  };
}

}  // namespace lt
