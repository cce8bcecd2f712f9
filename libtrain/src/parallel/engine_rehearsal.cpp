// Rehearses the passes of an engine: runs them on shapes only, and records their memory, their collectives, and which
// units can be gathered in e4m3.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "comm/call_log.h"
#include "parallel/engine_impl.h"
#include "profile/work_count.h"

namespace lt {

void Engine::rehearse(const Batch& step, const std::optional<Batch>& evaluation) {
  Impl& impl = *impl_;
  impl.require_own_parameters();
  impl.require_same_shapes(Impl::kStep, step);
  if (evaluation) impl.require_same_shapes(Impl::kEvaluation, *evaluation);
  try {
    collectively(impl.control, [&] {
      impl.rehearse(Impl::kStep, step);
      if (evaluation) impl.rehearse(Impl::kEvaluation, *evaluation);
    });
  } catch (...) {
    impl.rehearsals.forget_new();
    throw;
  }
  const std::vector<std::string> keys = impl.rehearsals.compare(impl.control, impl.arena_windows());
  if (!impl.uses_arena) return;
  impl.rehearsals.reserve_for(keys, [&] { collectively(impl.control, [&] { impl.rehearsals.reserve(); }); });
}

std::string Engine::Impl::prepare(const Pass& pass, const Batch& batch) {
  std::string key = rehearse(pass, batch);
  rehearsals.compare(control, arena_windows());
  form = rehearsals.use(key);
  if (uses_arena) rehearsals.reserve_for({key}, [&] { rehearsals.reserve(); });
  return key;
}

std::string Engine::Impl::rehearse(const Pass& pass, const Batch& batch) {
  return rehearsals.add(pass.name, batch, [&](const Batch& shapes) {
    struct Restore {  // even if the rehearsal throws
      Impl& engine;
      ~Restore() { engine.bind_model(); }
    } const restore{*this};
    const ContextScope scope(context(Context::silent()));
    profile::WorkCount work;
    const profile::WorkScope counting(&work);
    EngineOptions on_meta = options;
    on_meta.device = meta_for(options.device);
    const Group group = control.on_meta(options.device);
    Impl twin(model, parallel::make_sharding(group, parallel, on_meta), parallel, optimizers, on_meta);
    twin.make_shared();
    twin.form.in_e4m3.assign(units.size(), options.fp8);
    pass.body(twin, shapes);  // the second run is like all later ones: parameters are in flight when it starts
    for (std::size_t i = 0; i < units.size(); ++i) {
      twin.form.in_e4m3[i] = twin.form.in_e4m3[i] && !twin.units[i].values_were_read();
    }
    twin.form.has_fp8_matmuls = work.quantized_flops > 0;
    std::vector<std::string> calls;
    MemoryPlan plan = memory::record_memory_plan(pass.name, on_meta.device, [&] {
      const comm::CallListScope list(&calls);
      pass.body(twin, shapes);
    });
    return parallel::Rehearsed{std::move(plan), twin.form, std::move(calls)};
  });
}

}  // namespace lt
