// Plans the memory of generation by running the real generator on the meta device.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/base_model.h"
#include "config/derive.h"
#include "config/names.h"
#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/config/config.h"
#include "libtrain/config/resolved.h"
#include "libtrain/generate/generate.h"
#include "libtrain/plan/plan_sample.h"
#include "memory/workspace.h"
#include "nn/lora.h"
#include "nn/spec_fields.h"
#include "plan/plan_limits.h"
#include "record/short_text.h"

namespace lt {

namespace {

// `sample` computes in the dtype in which the run was trained, with FP8 in bf16.
Config with_dtype_of_run(Config config) {
  if (config.model.from.empty() || config.origins.contains("train.dtype")) return config;
  const std::optional<checkpoint::RunState> state = config::state_at(config.model.from);
  if (!state) return config;
  const Precision dtype = config::config_of(*state).train.dtype.value_or(Precision::f32);
  config.train.dtype = dtype == Precision::fp8 ? Precision::bf16 : dtype;
  return config;
}

// `ltrain sample` loads a checkpoint of adapters with their base, which model.from of a training cannot name.
Config with_adapters_of_base(Config config) {
  if (config.model.from.empty()) return config;
  const auto there = config::model_at(config.model.from);
  if (!there || !nn::has_adapters(*there)) return config;
  for (const nn::SpecField& field : nn::spec_fields()) {
    if (!nn::is_set(config.model, field)) nn::copy_field(config.model, *there, field);
  }
  config.model.from.clear();
  return config;
}

}  // namespace

SamplePlan plan_sample(const Config& given, Size rows, const PlanMachine& machine) {
  Config config = on_machine(with_adapters_of_base(with_dtype_of_run(given)), machine);
  config.train.global_batch = 0;  // says nothing of generation
  const Resolved resolved = resolve(config, 1, DeviceType::cpu);
  const auto model = nn::make_transformer(config::model_spec(resolved.config));
  planner::require_plannable(*model, {rows, model->spec().max_seq, "--rows", "model.max_seq"});
  const Device device = meta_for(resolved.step.device);
  const nn::TransformerSpec& spec = model->spec();
  SamplePlan plan;
  plan.model = fmt::format("{}: {}, width {}, vocab {}", spec.family, recorder::counted(spec.layers, "layer"),
                           spec.width, spec.vocab);
  plan.dtype = config::name_of(resolved.precision);
  plan.rows = rows, plan.prompt_tokens = resolved.step.seq, plan.capacity = spec.max_seq;
  const Size before = memory_live(device).total;
  reset_memory_peak(device);
  model->materialize(device, resolved.step.dtype, 0);
  plan.weight_bytes = memory_live(device).total - before;
  Generator generator(*model, rows, {});
  for (Size row = 0; row < rows; ++row) {
    generator.append(row, Generator::Tokens(static_cast<std::size_t>(resolved.step.seq)));
  }
  for (int pass = 0; pass < 2; ++pass) generator.step();  // reads the prompts, then decodes
  plan.cache_bytes = generator.cache_bytes(), plan.arena_bytes = generator.arena_bytes();
  for (const auto& [name, bytes] : generator.pass_bytes()) {
    (name == "prefill" ? plan.prefill_bytes : plan.decode_bytes) = bytes;
  }
  plan.workspace_bytes = memory::workspace_bytes(target_of(device));
  plan.peak_bytes = memory_peak(device).total - before + plan.workspace_bytes;
  return plan;
}

std::string to_json(const SamplePlan& plan) {
  return nlohmann::ordered_json{{"model", plan.model},
                                {"dtype", plan.dtype},
                                {"rows", plan.rows},
                                {"prompt_tokens", plan.prompt_tokens},
                                {"capacity", plan.capacity},
                                {"weight_bytes", plan.weight_bytes},
                                {"cache_bytes", plan.cache_bytes},
                                {"prefill_bytes", plan.prefill_bytes},
                                {"decode_bytes", plan.decode_bytes},
                                {"arena_bytes", plan.arena_bytes},
                                {"workspace_bytes", plan.workspace_bytes},
                                {"peak_bytes", plan.peak_bytes}}
      .dump(2);
}

std::string to_text(const SamplePlan& plan) {
  const auto line = [](const std::string& name, Size bytes, const std::string& note) {
    return fmt::format("  {:<11} {:>13.2f} MiB{}{}\n", name, static_cast<double>(bytes) / (1 << 20),
                       note.empty() ? "" : "  ", note);
  };
  const Size rest = plan.peak_bytes - plan.weight_bytes - plan.cache_bytes - plan.arena_bytes - plan.workspace_bytes;
  std::string text = fmt::format("{}\n{} of {} in {}\n", plan.model, recorder::counted(plan.rows, "sequence"),
                                 recorder::counted(plan.prompt_tokens, "prompt token"), plan.dtype);
  text += line("weights", plan.weight_bytes, "");
  text += line("cache", plan.cache_bytes, fmt::format("keys and values of {} tokens a sequence", plan.capacity));
  text += line("arena", plan.arena_bytes, "the larger of the two passes");
  text += line("  prefill", plan.prefill_bytes, "a prompt at a time");
  text += line("  decode", plan.decode_bytes, "");
  if (plan.workspace_bytes > 0) text += line("workspace", plan.workspace_bytes, "");
  text += line("logits, ids", rest, "");
  text += line("peak", plan.peak_bytes, "");
  text.pop_back();
  return text;
}

}  // namespace lt
