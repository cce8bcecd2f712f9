// Engine: trains a model under any strategy. It owns the flat buffers of each unit, gathers and frees parameters,
// reduces gradients and runs the optimizer, all hidden from the model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/comm/group.h"
#include "libtrain/memory/memory_plan.h"
#include "libtrain/nn/module.h"
#include "libtrain/optim/optimizer_groups.h"
#include "libtrain/parallel/evaluation.h"
#include "libtrain/parallel/strategy.h"
#include "libtrain/tensor/batch.h"
#include "libtrain/tensor/shard_map.h"

namespace lt::tensor {
class IdChecks;
}
namespace lt::parallel {
struct EngineForTests;
struct StepReport;
}  // namespace lt::parallel

namespace LT_API lt {

using nn::Recompute;

struct ParallelOptions {
  Strategy strategy = Strategy::ddp;
  int shard_size = 0;  // ranks of a shard group; 0: all. Smaller than the world: hybrid, replicated across groups
  Recompute recompute = Recompute::none;
  Size recompute_every = 1;         // blocks 0, n, 2n, ...
  DType reduce_dtype = DType::f32;  // of gradients on the wire; sums are always f32
  // All strategies reduce at the same moments, and so give the same bits at the same world size.
  bool deterministic = false;
};

struct EngineOptions {
  Size micro_batch = 1, accum = 1, seq = 1;
  // The dtype of parameters in use and of activations: f32, bf16, or f16 with loss scaling. Sums are f32, and so are
  // the masters of optimizers that have them.
  DType dtype = DType::f32;
  Device device = kCpu;
  std::uint64_t seed = 1337;  // for initial weights and dropout
  // False: weights are undefined until they are loaded or Engine::initialise() is called. Saves the time of drawing
  // them.
  bool initial_weights = true;
  // On CUDA: from the third step on, the whole step, collectives and update included, is one CUDA graph, with the same
  // bits. Traced steps, steps beside a copy of the state (hold_update_for()), those with batches
  // on the device, and those of a model whose loss() makes tensors from values of the host run without it. A graph
  // repeats the numbers that loss() gave to operations when it was captured, such as a factor: they must not change.
  bool cuda_graph = false;
  // On CUDA with f32: matmuls round their operands to TF32.
  bool tf32 = false;
  // With bf16: linear layers of blocks multiply in e4m3, with scales from the current values (docs/numerics.md, "FP8").
  // CUDA devices need compute capability 9.0.
  bool fp8 = false;
  // Whether targets of a step may be kIgnoredTarget. Then targets are i32, and the ranks count those that count before
  // the forward pass, for the mean over the global batch. A step in which none counts updates nothing. A step in which
  // all count has the same bits as without this option. For losses of nn::cross_entropy() and transformers. The ranks
  // count those of Batch::targets, so a loss() must not make others that are kIgnoredTarget.
  bool ignored_targets = false;
  // Terms of the training loss, not of evaluations: ops::LossOptions. For losses of nn::cross_entropy() and
  // transformers.
  double z_loss = 0, label_smoothing = 0;
};

// The results of one step, copied from the device; reading them waits for its end. The engine owns them: the step after
// the next overwrites them. On a GPU, reading throws UsageError if an id of this rank's batch was outside its table
// (ops::embedding(), ops::cross_entropy()). Then the step has updated nothing, and on the other ranks its loss is NaN.
class StepResult {
 public:
  StepResult(const parallel::StepReport* report, const tensor::IdChecks* ids, const Event& done)
      : report_(report), ids_(ids), done_(done) {}
  // Mean over all tokens of the global batch whose targets count; 0 if none does.
  float loss() const;
  // Global L2 norm of the mean gradient, before clipping.
  float norm() const;
  // The loss scale of the step; 1 unless in f16.
  float loss_scale() const;
  // The share of the global batch's targets that count; 1 unless EngineOptions::ignored_targets.
  double counted_share() const;

 private:
  const parallel::StepReport& report() const;

  const parallel::StepReport* report_;
  const tensor::IdChecks* ids_;
  Event done_;
};

// Dynamic loss scaling of f16, and how many steps updated nothing: docs/numerics.md.
struct LossScale {
  float scale = 1;
  Size steps = 0;    // number of steps with finite gradients since the last change
  Size skipped = 0;  // number of steps without an update so far, in every dtype
};

// The run that an engine's checkpoints belong to.
struct RunIds {
  std::string id;      // empty: none yet
  std::string parent;  // the run whose checkpoint it began from; empty: none
};

class Engine {
 public:
  // Binds `model`, which must outlive the engine, and initialises it. All ranks of `world` must construct the engine
  // alike. Throws UsageError for a shard_size that does not divide the world, for dtypes that the engine does not
  // train, for optimizers that OptimizerGroups does not allow, and for parameters outside of units or with names that a
  // checkpoint cannot hold. If one rank has too little memory, all ranks throw: here, in rehearse() and in
  // with_parameters().
  // One process may have several engines, in one thread or in several. Engines that share CUDA devices and span several
  // ranks must be stepped by one thread, in the same order on all ranks: a step holds its device's turn while it waits
  // for its peers, so threads in different orders could wait for each other forever. A Generator and logits() take
  // turns with engines too; operations that a program calls itself do not, so they belong in the thread that steps.
  Engine(nn::Model& model, const Group& world, const ParallelOptions& parallel, const OptimizerGroups& optimizers,
         const EngineOptions& step);
  // During stack unwinding it waits for no peer: its groups refuse further collectives, and host memory that a device
  // uses stays allocated until the process ends.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  BatchShape batch_shape() const;

  // Rehearses a step, and with `evaluation` an evaluation, on batches of these shapes (on any device; the same on all
  // ranks), so that memory has its final size before the first step. Otherwise new shapes are rehearsed when the first
  // batch with them arrives.
  void rehearse(const Batch& step, const std::optional<Batch>& evaluation = {});

  // One step on this rank's rows of the global batch: batch_shape().samples() rows, of the same shape on all ranks.
  // Runs forward and backward for each micro-batch, reduction, clipping and update. If loss or norm is not finite, the
  // device skips the update, and f16 halves its scale. An id outside its table throws UsageError: on the CPU here, on a
  // GPU where the result is read, or in the step after the next. No later step updates anything. After a step or an
  // evaluation has thrown half-way, the engine refuses all further ones (UsageError). A step's duration, from which the
  // watchdog derives its patience, is known only if the thread that runs it also runs the next one.
  StepResult step(const Batch& batch);
  // Sets the learning rate of the next steps; initially OptimizerGroups::lr. Throws UsageError for one below 0 or not
  // finite in f32.
  void set_learning_rate(double lr);

  // The losses of all ranks' batches, in rank order, without gradients, dropout or the terms that only training has.
  // Throws UsageError on all ranks if the batches' shapes differ; a batch in which no target counts is filling. Waits
  // for the device. Every rank must call it.
  std::vector<BatchLoss> evaluate(const Batch& batch);
  // Runs `body` with all parameters gathered, without gradients, for functions of the model itself such as sampling.
  // Every rank must call it. Refuses as step() does. `body` must not run or change this engine. What it writes to
  // parameters may be lost, depending on strategy and dtype; shard_map() and parameters_changed() set values.
  void with_parameters(const std::function<void()>& body);

  // Steps done and samples consumed, by all ranks; restored by a checkpoint. Neither may be negative (UsageError).
  Size steps_done() const;
  void set_progress(Size steps, Size samples);
  Size samples_done() const;
  // For code that saves and loads; the engine itself does not use it.
  const RunIds& run() const;
  void set_run(RunIds run);
  // The loss scale of the next step; reading or setting it waits for the steps before. Without f16 the scale is 1, and
  // set_loss_scale() sets `skipped` alone. It throws UsageError for a scale that is not positive and finite, and for
  // counts below 0.
  LossScale loss_scale() const;
  void set_loss_scale(const LossScale& scale);

  // Delays the next update until the work that `stream` holds now is done. Meanwhile masters and states can be copied
  // on that stream, beside the next forward and backward pass; that step runs without a CUDA graph. All ranks must call
  // it. A second call before the update replaces the first.
  void hold_update_for(const Stream& stream);

  // How much of the model each group of optimizers trains.
  std::vector<OptimizerGroupUse> optimizer_groups() const;

  // Which rank owns which range of masters and optimizer states. The tensors are the engine's own. After loading into
  // them, call parameters_changed(), which updates copies and other ranks.
  ShardMap shard_map() const;
  void parameters_changed();
  // Sets masters to the initial values of options().seed, optimizer states, progress and the count of skipped steps to
  // zero, and the loss scale to its first value, as in a new engine. All ranks must call it.
  void initialise();

  const nn::Model& model() const;
  const ParallelOptions& parallel() const;
  const EngineOptions& options() const;
  // The memory plans of the rehearsals, at most 256, and the size of the arena that they share, which is that of the
  // largest. The pointers are valid until the next rehearsal, step or evaluation.
  std::vector<const MemoryPlan*> memory_plans() const;
  Size arena_bytes() const;
  // Where peers write: "symmetric windows", "no symmetric windows (NCCL_WIN_ENABLE=0)"; empty without NCCL and on
  // one rank.
  std::string peer_memory() const;

  // Elements of all units with alignment: P in the formulas of docs/strategies.md.
  Size padded_parameters() const;
  Size padded_trained() const;  // without frozen ones
  Size largest_unit() const;

 private:
  friend parallel::EngineForTests;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lt
