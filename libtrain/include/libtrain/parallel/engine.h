// Engine: trains a model under any strategy. It owns the flat buffers of each unit, gathers and frees parameters,
// reduces gradients and runs the optimizer; the model sees none of it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/comm/group.h"
#include "libtrain/memory/memory_plan.h"
#include "libtrain/nn/module.h"
#include "libtrain/optim/optimizer_groups.h"
#include "libtrain/parallel/strategy.h"
#include "libtrain/tensor/batch.h"
#include "libtrain/tensor/shard_map.h"

namespace lt {

using nn::Recompute;

struct ParallelOptions {
  Strategy strategy = Strategy::ddp;
  int shard_size = 0;  // ranks of a shard group; 0: all. Smaller than the world: hybrid, replicated across groups
  Recompute recompute = Recompute::none;
  Size recompute_every = 1;         // blocks 0, n, 2n, ...
  DType reduce_dtype = DType::f32;  // of gradients on the wire; sums are f32 always
  // All strategies reduce at the same moments, so that they give the same bits at the same world size.
  bool deterministic = false;
};

struct StepOptions {
  Size micro_batch = 1, accum = 1, seq = 1;
  // The dtype of parameters in use and activations: f32, bf16, or f16, whose loss is scaled. Sums are f32, and so are
  // masters, where the optimizers have them.
  DType dtype = DType::f32;
  Device device = kCpu;
  std::uint64_t seed = 1337;  // of initial weights and dropout
  // False: each tensor of a step is allocated on its own, to see whether the arena is to blame for something.
  bool arena = true;
  // On CUDA: from the third step on the whole step, collectives and update included, is one CUDA graph, with the same
  // bits. It takes batches on the CPU, an arena and no dropout. Steps that are traced and steps beside a copy of the
  // state (hold_update_for()) run without it.
  bool cuda_graph = false;
  // On CUDA with f32: products round their operands to TF32.
  bool tf32 = false;
};

// What a step leaves on the device.
struct StepOutcome {
  float loss = 0, norm = 0, loss_scale = 1;
};

// Numbers of one step, on their way from the device; reading them waits for its end. The engine's own: the step after
// the next one overwrites them.
class StepResult {
 public:
  StepResult(const StepOutcome* outcome, const Event& done) : outcome_(outcome), done_(done) {}
  // Mean over all tokens of the global batch.
  float loss() const { return done_.synchronize(), outcome_->loss; }
  // Global L2 norm of the mean gradient, before clipping.
  float norm() const { return done_.synchronize(), outcome_->norm; }
  // With which the step was computed: 1 but in f16.
  float loss_scale() const { return done_.synchronize(), outcome_->loss_scale; }

 private:
  const StepOutcome* outcome_;
  Event done_;
};

// Dynamic loss scaling of f16: docs/numerics.md.
struct LossScale {
  float scale = 1;
  Size steps = 0;    // with finite gradients since it changed
  Size skipped = 0;  // steps so far that had no update
};

// The run that an engine's checkpoints belong to.
struct RunIds {
  std::string id;      // empty: none yet
  std::string parent;  // of the run whose checkpoint it began from; empty: none
};

class Engine {
 public:
  // Binds `model`, which must outlive the engine, and gives it initial values. All ranks of `world` construct alike.
  // Throws UsageError for a shard_size that does not divide the world, for dtypes that the engine does not train and
  // for optimizers that OptimizerGroups does not allow. Where one rank has too little memory all throw, here, in
  // rehearse() and in with_parameters().
  Engine(nn::Model& model, const Group& world, const ParallelOptions& parallel, const OptimizerGroups& optimizers,
         const StepOptions& step);
  // While an exception passes it waits for no peer: its groups take no further collectives, and memory of the host that
  // a device uses stays to the end of the process.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  BatchShape batch_shape() const;

  // Rehearses a step, and with `evaluation` an evaluation, on batches of these shapes (on any device; all ranks alike),
  // so that memory has its final size before the first step. Otherwise a rehearsal is made when a batch of new shapes
  // comes.
  void rehearse(const Batch& step, const std::optional<Batch>& evaluation = {});

  // One step on this rank's rows of the global batch (batch_shape().samples() of them, of the same shape on all ranks):
  // forward and backward of each micro-batch, reduction, clipping, update. Where loss or norm is not finite the update
  // is suppressed on the device; f16 then halves its scale. An engine of which a step or an evaluation threw half-way
  // refuses all further ones (UsageError).
  StepResult step(const Batch& batch);
  // The rate of the next steps; OptimizerGroups::lr until it is called.
  void set_learning_rate(double lr);

  // Mean loss over all ranks' batches, of the same shape on all of them, without gradients or dropout: one f32 on the
  // device, overwritten by the next call. Every rank calls it.
  Tensor evaluate(const Batch& batch);
  // Runs `body` with all parameters gathered, without gradients: for the model's own functions (sampling). Every rank
  // calls it.
  void with_parameters(const std::function<void()>& body);

  // Steps that this engine ran as a CUDA graph.
  Size graph_launches() const;

  // Steps done and samples consumed, by all ranks; restored by a checkpoint.
  Size steps_done() const;
  void set_progress(Size steps, Size samples);
  Size samples_done() const;
  // Kept for those who save and load; the engine itself does not use it.
  const RunIds& run() const;
  void set_run(RunIds run);
  // Of the next step; waits for those before it. Without f16 it is 1, and set_loss_scale() does nothing;
  // with it, it throws UsageError for a scale that is not positive and counts below 0.
  LossScale loss_scale() const;
  void set_loss_scale(const LossScale& scale);

  // The next update starts after the work that `stream` holds now. So masters and states may be copied on a stream of
  // its own, beside the forward and backward pass of the next step, which runs without a CUDA graph. All ranks call it
  // alike. A second call before the update replaces the first.
  void hold_update_for(const Stream& stream);

  // What each group of optimizers holds of the model.
  std::vector<OptimizerGroupUse> optimizer_groups() const;

  // Who owns which range of masters, m and v. The tensors are the engine's own: load into them, then call
  // parameters_changed(), which brings copies and other ranks up to date.
  ShardMap shard_map() const;
  void parameters_changed();
  // Initial masters of options().seed, m and v of zeros, as a new engine has them. All ranks call it.
  void initialise();

  const nn::Model& model() const;
  const ParallelOptions& parallel() const;
  const StepOptions& options() const;
  // The memory plans of what was rehearsed so far, and the size of the arena that they share: the largest one's.
  std::vector<const MemoryPlan*> memory_plans() const;
  Size arena_bytes() const;
  // Where gathered parameters lie: "symmetric windows", "no symmetric windows (NCCL_WIN_ENABLE=0)"; empty where nothing
  // is gathered over NCCL.
  std::string gather_memory() const;

  // Elements of all units with their alignment; what the formulas of docs/strategies.md call P.
  Size padded_parameters() const;
  Size padded_trained() const;  // of those that are not frozen
  Size largest_unit() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lt
