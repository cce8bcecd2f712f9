// The checks of a complete configuration, one function for each subject.
#include "config/config_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

#include "config/names.h"
#include "config/optimizer_choices.h"
#include "config/resolve.h"
#include "libtrain/error.h"
#include "libtrain/optim/optimizer_groups.h"
#include "nn/lora.h"
#include "optim/row.h"

namespace lt::config {
namespace {

[[noreturn]] void refuse(const char* key, std::string expected, std::string actual, std::string hint = {}) {
  throw UsageError("config", key, std::move(expected), std::move(actual), std::move(hint));
}
std::string text(double value) { return fmt::format("{}", value); }

void require_backend_of_device(const Config& config) {
  if (config.parallel.backend != CommBackend::nccl || config.train.device == DeviceType::cuda) return;
  refuse("parallel.backend", "auto or mpi on cpu", "nccl");
}

void require_graph_on_gpu(const Config& config) {
  if (!config.train.cuda_graph.value_or(false)) return;
  if (config.parallel.backend == CommBackend::mpi) {
    refuse("train.cuda_graph", "false with parallel.backend=mpi, where the host takes part", "true");
  }
  if (config.train.device != DeviceType::cuda) {
    refuse("train.cuda_graph", "false on " + name_of(config.train.device), "true");
  }
}

void require_f32_of_tf32(const Config& config) {
  if (!config.train.tf32 || (config.train.device == DeviceType::cuda && config.train.dtype == Precision::f32)) return;
  refuse("train.tf32", "false without train.dtype=f32 on cuda, whose matmuls it rounds",
         fmt::format("true with {} on {}", name_of(config.train.dtype), name_of(config.train.device)));
}

void require_no_fp8_with_adapters(const Config& config) {
  if (config.train.dtype != Precision::fp8 || !nn::has_adapters(config.model)) return;
  refuse("train.dtype", "bf16, f16 or f32 with adapters (model.lora)", "fp8");
}

void require_kernels_of_profile(const Config& config) {
  if (config.record.profile_steps == 0 || config.train.device == DeviceType::cuda) return;
  refuse("record.profile_steps", "0 without train.device=cuda, whose kernels it records",
         fmt::format("{} on {}", config.record.profile_steps, name_of(config.train.device)),
         "record.trace_steps records spans on every device");
}

void require_gpu_of_algorithms(const Config& config) {
  if (config.train.algorithms.empty() || config.train.device == DeviceType::cuda) return;
  refuse("train.algorithms", "none on cpu, because only GPUs have tables of algorithms", config.train.algorithms);
}

void require_falling_rate(const Config& config) {
  if (config.optim.min_lr <= config.optim.lr) return;
  refuse("optim.min_lr", fmt::format("at most optim.lr {}", config.optim.lr), text(config.optim.min_lr));
}

void require_decays_below_1(const Config& config) {
  for (const auto& [key, decay] : {std::pair{"optim.beta1", config.optim.beta1},
                                   {"optim.beta2", config.optim.beta2},
                                   {"optim.momentum", config.optim.momentum},
                                   {"optim.ema", config.optim.ema}}) {
    if (static_cast<float>(decay) >= 1) refuse(key, "a number below 1 in f32", text(decay));
  }
}

void require_in_f32(const char* key, double value, const std::string& what = {}) {
  const std::string expected = optim::expected_from_0(value);
  if (!expected.empty()) refuse(key, what + expected, text(value));
}

void require_numbers_in_f32(const Config& config) {
  for (const auto& [key, value] : {std::pair{"train.z_loss", config.train.z_loss},
                                   {"optim.eps", config.optim.eps},
                                   {"optim.clip", config.optim.clip},
                                   {"optim.lr", config.optim.lr},
                                   {"optim.weight_decay", config.optim.weight_decay}}) {
    require_in_f32(key, value);
  }
  for (const OptimGroupConfig& group : config.optim.groups) {
    if (group.weight_decay >= 0) require_in_f32("optim.groups", group.weight_decay, "as weight_decay ");
    require_in_f32("optim.groups", group.lr_scale, "as lr_scale ");
    require_in_f32("optim.groups", config.optim.lr * group.lr_scale, "as optim.lr times lr_scale ");
  }
}

void require_known_optimizer(const Config& config) {
  if (!has_own_optimizers(config) || config.replaced.contains("optim.groups")) return;
  refuse("optim.name", fmt::format("one of {}", fmt::join(optimizer_names(), ", ")), config.optim.name,
         "optimizers of a program's own come from its TrainerOptions");
}

// A Muon group brings an AdamW group for the parameters that Muon does not take.
void require_few_groups(const Config& config) {
  if (has_own_optimizers(config)) return;
  std::size_t groups = rows_of_optimizer(config.optim.name).size();
  for (const OptimGroupConfig& group : config.optim.groups) {
    groups += rows_of_optimizer(optimizer_of(group, config.optim)).size();
  }
  if (groups <= kMaxOptimizerGroups) return;
  refuse("optim.groups",
         fmt::format("at most {} in all, where a group of muon counts twice and optim.name adds its own",
                     kMaxOptimizerGroups),
         std::to_string(groups));
}

void require_bf16_without_masters(const Config& config) {
  if (config.optim.master || compute_dtype(config.train.dtype.value()) == DType::bf16) return;
  refuse("optim.master", "f32, unless train.dtype is bf16 or fp8", "none with " + name_of(config.train.dtype));
}

void require_one_source_of_data(const Config& config) {
  if (config.data.sources.empty() || config.data.train.empty()) return;
  refuse("data.train", "none with data.sources", fmt::format("{}", fmt::join(config.data.train, ", ")));
}

void require_steps_or_epochs(const Config& config) {
  if (config.data.epochs == 0 || !config.origins.contains("train.steps")) return;
  refuse("train.steps", fmt::format("none with data.epochs={}, which it follows from", config.data.epochs),
         std::to_string(config.train.steps));
}

void require_one_origin_of_weights(const Config& config) {
  const std::string &resume = config.checkpoint.resume, &from = config.model.from;
  if (from.empty() || nn::has_adapters(config.model) || resume == "auto" || resume == "never") return;
  refuse("model.from", fmt::format("none with checkpoint.resume={}, whose weights count", resume), from,
         "--model.from= leaves it out, --checkpoint.resume=auto starts from its weights at step 1");
}

void require_evaluation_of_best(const Config& config) {
  if (!config.checkpoint.best || config.train.eval_every > 0) return;
  refuse("checkpoint.best", "false without train.eval_every, whose loss says which one is best", "true");
}

}  // namespace

void check(const Config& complete) {
  for (const auto require :
       {require_backend_of_device, require_graph_on_gpu, require_f32_of_tf32, require_no_fp8_with_adapters,
        require_kernels_of_profile, require_gpu_of_algorithms, require_known_optimizer, require_falling_rate,
        require_decays_below_1, require_numbers_in_f32, require_few_groups, require_bf16_without_masters,
        require_one_source_of_data, require_steps_or_epochs, require_one_origin_of_weights,
        require_evaluation_of_best}) {
    require(complete);
  }
}

}  // namespace lt::config
