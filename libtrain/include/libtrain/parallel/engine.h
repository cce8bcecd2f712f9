// Engine: trains a model under any strategy. It owns the flat buffers of each unit, gathers and frees parameters,
// reduces gradients and runs the optimizer. The model does not see any of this.
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
#include "libtrain/parallel/determinism.h"
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
  // Consecutive ranks that shard together; must divide the world; 0: all ranks. If it is smaller than the world, each
  // shard group holds one replica (hybrid sharding). Must be 0 or the world's size for ddp.
  int shard_size = 0;
  Recompute recompute = Recompute::none;
  Size recompute_every = 1;         // n: `recompute` applies to blocks 0, n, 2n, ...; at least 1
  DType reduce_dtype = DType::f32;  // of gradients in transit: f32 or bf16; sums are always f32
  // on, elastic: ranks reduce gradients after every micro-batch, and use deterministic kernels
  // (KernelSettings::deterministic). off: strategies that replicate gradients reduce once per step. elastic needs a
  // number of ranks that is a power of two, at most kMostElasticRanks.
  Determinism deterministic = Determinism::off;
};

struct EngineOptions {
  // Samples per forward and backward pass on a rank, and micro-batches per step.
  Size micro_batch = 1, accum = 1;
  // Tokens per sample, for batch_shape() and the loaders that are made from it. The engine itself takes batches of any
  // length.
  Size seq = 1;
  // The compute dtype, of gathered parameters and activations: f32, bf16, or f16 with loss scaling. Sums are f32.
  // Master weights are f32 if the optimizer has them (Optimizer::masters).
  DType dtype = DType::f32;
  Device device = kCpu;
  std::uint64_t seed = 1337;  // for initial weights and dropout
  // False: saves the time to compute initial weights. Weights are then undefined until the caller loads them or calls
  // Engine::initialise().
  bool initial_weights = true;
  // CUDA only. From the third step on, the complete step, with its collectives and update, runs as one CUDA graph. The
  // bits are the same. A step runs without a graph if a timeline records it, if it follows hold_update_for(), if a
  // tensor of its batch is on the device, or if loss() makes tensors from host values. A graph repeats the numbers that
  // loss() passed to operations at capture, such as a factor, so these must not change between steps.
  bool cuda_graph = false;
  // CUDA with dtype f32 only. Matmuls round their operands to TF32.
  bool tf32 = false;
  // With dtype bf16 only. Linear layers of blocks multiply in e4m3, with scales computed from the current values
  // (docs/explanation/numerics.md, "FP8"). CUDA devices must have compute capability 9.0.
  bool fp8 = false;
  // True: targets of a step may be kIgnoredTarget. They must be i32, and the model must be a transformer or its loss()
  // must call nn::cross_entropy(). The loss is the mean over the non-ignored targets of the global batch: before the
  // forward pass, each rank counts them in Batch::targets. So loss() must not ignore other targets. If all targets of
  // the global batch are ignored, the step updates nothing. If none is ignored, the bits are the same as without this
  // option.
  bool ignored_targets = false;
  // Terms of the training loss, as in ops::LossOptions. Evaluations do not have them. If one is not 0, the model must
  // be a transformer or its loss() must call nn::cross_entropy().
  double z_loss = 0, label_smoothing = 0;
};

// The results of one step. Reading a result waits until the device has finished the step. The engine owns the results,
// and the step after the next overwrites them: read them earlier, and while the engine exists. On a GPU, reading throws
// UsageError if this rank's batch had an id outside its table (ops::embedding()) or a bad target
// (ops::cross_entropy()). Such a step has updated nothing, and its loss is NaN on the other ranks.
class StepResult {
 public:
  StepResult(const parallel::StepReport* report, const tensor::IdChecks* ids, const Event& done)
      : report_(report), ids_(ids), done_(done) {}
  // The mean loss over the non-ignored targets of the global batch; 0 if all are ignored. For other losses, the mean of
  // loss() over all micro-batches of all ranks.
  float loss() const;
  // The global L2 norm of the mean gradient, before clipping.
  float norm() const;
  // The loss scale of the step; 1 unless the dtype is f16.
  float loss_scale() const;
  // The share of the global batch's targets that are not ignored; 1 without EngineOptions::ignored_targets.
  double counted_share() const;

 private:
  const parallel::StepReport& report() const;

  const parallel::StepReport* report_;
  const tensor::IdChecks* ids_;
  Event done_;
};

// The state of dynamic loss scaling in f16, and the number of skipped updates. docs/explanation/numerics.md explains
// both.
struct LossScale {
  float scale = 1;
  Size steps = 0;    // f16: number of steps with finite gradients since the scale last changed
  Size skipped = 0;  // every dtype: number of steps so far that updated nothing
};

struct GradientNorm {
  std::string parameter;  // its full name
  double norm;
};

// Identifies the run to which an engine's checkpoints belong.
struct RunIds {
  std::string id = {};      // empty: not set yet
  std::string parent = {};  // id of the run whose checkpoint this run began from; empty: it began from no checkpoint
};

class Engine {
 public:
  // Binds the parameters of `model` to the engine's buffers and writes initial values to them. `model` must outlive the
  // engine. All ranks of `world` must call the constructor, with the same arguments. Throws UsageError, on all ranks,
  // for arguments that differ between ranks, for options outside the ranges above, for optimizers that OptimizerGroups
  // does not allow, and for parameters that are in no unit or have a name that a checkpoint cannot hold. If one rank
  // has too little memory, all ranks throw, here and in rehearse() and with_parameters(). One process may have several
  // engines, in one thread or in several. If engines share a CUDA device and have several ranks, one thread must run
  // the steps of all of them, in the same order on all ranks. Otherwise ranks may deadlock: a step locks its device
  // while it waits for its peers. Generator and Transformer::logits() take the same lock. Operations that a program
  // calls itself do not, so call them in the thread that runs the steps.
  Engine(nn::Model& model, const Group& world, const ParallelOptions& parallel, const OptimizerGroups& optimizers,
         const EngineOptions& step);
  // During stack unwinding, the destructor does not wait for peers: the engine's groups throw CommError for further
  // collectives on the device, and host memory that the device uses stays allocated until the process ends.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The share of the global batch that step() expects on this rank.
  BatchShape batch_shape() const;

  // Rehearses a step, and an evaluation if `evaluation` is given, on batches of these shapes: a dry run on shapes only,
  // after which memory has its final size. Optional: the first batch of new shapes causes a rehearsal anyway. All ranks
  // must call it with the same shapes. The batches may be on any device; their values are not read.
  void rehearse(const Batch& step, const std::optional<Batch>& evaluation = {});

  // Runs one step: forward and backward passes of all micro-batches, reduction, clipping and update. `batch` holds this
  // rank's batch_shape().samples() rows of the global batch (BatchShape::sample_of()), contiguous, on the CPU or on the
  // engine's device, with the same shapes on all ranks. All ranks must call it. Throws UsageError on all ranks if
  // shapes or learning rates differ between them. On a GPU, it may return before the device has finished. If the loss
  // or the norm is not finite, the step updates nothing, and f16 halves its loss scale. An id outside its table throws
  // UsageError: on the CPU in this call; on a GPU when the result is read, or in the step after the next. Then no later
  // step updates anything. After an error inside a step or an evaluation, all further calls of step(), evaluate() and
  // with_parameters() throw UsageError: make a new engine and load a checkpoint. A watchdog derives its limit for a
  // step from the duration of earlier ones. For that, one thread must run all steps.
  StepResult step(const Batch& batch);
  // Sets the learning rate of later steps; initially OptimizerGroups::lr. Throws UsageError if it is negative or not
  // finite in f32.
  void set_learning_rate(double lr);

  // Returns the losses of all ranks' batches, in rank order. Computes no gradients, and applies no dropout, z_loss or
  // label_smoothing. A rank without data passes a batch of the same shape whose targets are all kIgnoredTarget. Throws
  // UsageError on all ranks if the shapes differ between ranks. Waits for the device. All ranks must call it.
  std::vector<BatchLoss> evaluate(const Batch& batch);
  // Runs `body` while all parameters are gathered, for example to sample from the model. Records no gradients. All
  // ranks must call it. Throws UsageError after an error in a step, as step() does. `body` must not run or change this
  // engine (UsageError). Depending on strategy and dtype, values that `body` writes to parameters may be lost; to
  // change parameters, use shard_map() and parameters_changed().
  void with_parameters(const std::function<void()>& body);

  // The number of steps done, and of samples that all ranks together have consumed. Code that loads a checkpoint calls
  // set_progress(), which throws UsageError for a negative number.
  Size steps_done() const;
  void set_progress(Size steps, Size samples);
  Size samples_done() const;
  // The run, for code that saves and loads checkpoints. The engine itself does not use it.
  const RunIds& run() const;
  void set_run(RunIds run);
  // The loss scale of the next step. Reading or setting it waits for earlier steps. Unless the dtype is f16, the scale
  // is 1, and set_loss_scale() sets only `skipped`. It throws UsageError unless the scale is positive and finite and
  // both counts are in [0, 2^31 - 1].
  LossScale loss_scale() const;
  void set_loss_scale(const LossScale& scale);

  // Delays the next update until the work that `stream` holds now is done. So masters and optimizer states can be
  // copied on `stream` during the next forward and backward passes. That step runs without a CUDA graph. All ranks must
  // call it. A second call before the update replaces the first.
  void hold_update_for(const Stream& stream);

  // Return the gradients of the last step: of the mean loss of the global batch, before clipping, in f32. They are
  // valid until the next step. Throw UsageError before the first step and after an error in a step. gradients() returns
  // this rank's ranges; all ranks together have each element of each trained parameter once. The tensors share the
  // engine's memory and must not be written. In f16 they are multiplied by StepResult::loss_scale().
  std::vector<StateRange> gradients() const;
  // Returns the whole gradient of one parameter, on the CPU. Throws UsageError unless `parameter` is the name of a
  // trained parameter. All ranks must call it, with the same name.
  Tensor gradient(const std::string& parameter) const;
  // Returns the L2 norms of the gradients of all trained parameters, in order of units. All ranks must call it. The
  // last bits depend on the number of ranks and the shard size, in elastic runs too.
  std::vector<GradientNorm> gradient_norms() const;

  // Returns how much of the model each optimizer group trains, in order of groups.
  std::vector<OptimizerGroupUse> optimizer_groups() const;

  // Returns the ranges of masters and optimizer states that this rank saves and loads. The tensors share the engine's
  // memory. After writing to them, all ranks must call parameters_changed(). Throws UsageError after an error in an
  // update.
  ShardMap shard_map() const;
  // Copies the masters to the parameters in the compute dtype, on all ranks. All ranks must call it.
  void parameters_changed();
  // Resets the engine to the state of a new one: masters to the initial values for options().seed; optimizer states,
  // progress and the count of skipped steps to zero; the loss scale to its first value. All ranks must call it.
  void initialise();

  const nn::Model& model() const;
  const ParallelOptions& parallel() const;
  const EngineOptions& options() const;
  // Returns the memory plans of all rehearsals, at most 256. The pointers are valid until the next rehearsal, step or
  // evaluation.
  std::vector<const MemoryPlan*> memory_plans() const;
  // The size of the arena that all plans share: large enough for the largest plan.
  Size arena_bytes() const;
  // The memory that peers write, for logs: "symmetric windows", or "no symmetric windows (NCCL_WIN_ENABLE=0)" with the
  // reason. Empty without NCCL and for one rank.
  std::string peer_memory() const;

  // Elements of all units, padding included: P in the formulas of docs/explanation/memory.md.
  Size padded_parameters() const;
  Size padded_trained() const;  // only trained parameters
  Size largest_unit() const;    // elements of the largest unit, padding included

 private:
  friend parallel::EngineForTests;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lt
