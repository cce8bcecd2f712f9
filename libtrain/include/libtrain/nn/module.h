// Modules and models. A model is a chain of *units* (embedding, blocks, head), which an engine gathers, frees and
// recomputes as a whole. A model does not know how it is sharded; it tells an observer when a unit starts and ends.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/ops/ops.h"
#include "libtrain/tensor/autograd.h"
#include "libtrain/tensor/batch.h"
#include "libtrain/tensor/tensor.h"

namespace lt {
namespace LT_API nn {

// Initial values: normal with this mean and standard deviation. Element i is a pure function of (seed, parameter name,
// i).
struct Init {
  float mean = 0, deviation = 0;
  static Init constant(float value) { return {value, 0}; }
  static Init normal(float deviation) { return {0, deviation}; }
};

// A parameter knows its shape from the start; its tensor exists once the model is bound to a device and dtype.
class Parameter {
 public:
  Parameter(const Shape& shape, Init init) : shape_(shape), init_(init) {}

  const Shape& shape() const { return shape_; }
  Init init() const { return init_; }
  // Whether weight decay applies: to tensors of two or more dimensions.
  bool decays() const { return shape_.dims() >= 2; }
  // A parameter [rows, columns] may hold several independent matrices, one below the other, such as q, k and v. Returns
  // the rows of each: by default one entry with all rows, and none for a parameter that is not a matrix.
  std::vector<Size> matrix_rows() const;
  // Throws UsageError unless the rows add up to the parameter's.
  void set_matrix_rows(std::vector<Size> rows);
  // Whether it is a matrix of a block (Model::add_block()).
  bool is_block_matrix() const { return in_block_ && shape_.dims() == 2; }
  void put_in_block() { in_block_ = true; }
  // Throws UsageError before bind(). Under an engine it has the parameter's values only inside of run() and
  // with_parameters(). Elsewhere a step may still be writing it, and what is written to it is lost.
  const Tensor& tensor() const;
  void bind(Tensor tensor) { tensor_ = std::move(tensor); }

 private:
  Shape shape_;
  Init init_;
  std::vector<Size> matrix_rows_;
  bool in_block_ = false;
  Tensor tensor_;
};

struct NamedParameter {
  std::string name;  // "blocks.3.attention.qkv.weight"
  Parameter* parameter;
};

// A constant that the constructor of a module makes, such as a table of positions or a mask. It is not trained: no
// gradient, no optimizer state. Every rank makes and holds the same values, whole, and no checkpoint holds them.
class Buffer {
 public:
  // Copies the values, which are on the CPU. Throws UsageError without them.
  Buffer(std::string name, const Tensor& values);

  // A copy on `device`, owned by `constants` in the ledger: floating values rounded to `dtype`, integers as they are.
  Tensor copy_on(Device device, DType dtype) const;
  // The copy on the device and in the dtype of the parameters. Throws UsageError before bind().
  const Tensor& tensor() const;
  void bind(Tensor tensor) { tensor_ = std::move(tensor); }

 private:
  std::string name_;
  Tensor values_;  // as given; no ledger counts them
  Tensor tensor_;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Its own parameters and its children's, depth first in the order of registration. Names start with `prefix`.
  std::vector<NamedParameter> parameters(const std::string& prefix = "") const;
  // Its own buffers and its children's, in the same order.
  std::vector<Buffer*> buffers() const;

 protected:
  Parameter& add_parameter(std::string name, const Shape& shape, Init init);
  // `values` are on the CPU, of any dtype.
  Buffer& add_buffer(std::string name, const Tensor& values);
  // Makes a child of type M and owns it.
  template <class M, class... Args>
  M& add(std::string name, Args&&... args) {
    auto child = std::make_unique<M>(std::forward<Args>(args)...);
    M& reference = *child;
    children_.emplace_back(std::move(name), std::move(child));
    return reference;
  }

 private:
  std::vector<std::pair<std::string, std::unique_ptr<Parameter>>> parameters_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children_;
};

// How much of a unit's forward pass is kept for its backward pass.
enum class Recompute : std::uint8_t {
  none,       // everything
  selective,  // outputs of products and attention; norms and activations are computed again
  full,       // the unit's inputs; everything is computed again (Chen et al. 2016)
};
inline constexpr std::string_view kRecomputeNames[] = {"none", "selective", "full"};  // of parallel.recompute

// Called around the passes of each unit, by its index in Model::units().
class UnitObserver {
 public:
  virtual ~UnitObserver() = default;
  virtual void before_forward(int unit) = 0;
  virtual void after_forward(int unit) = 0;
  virtual void before_backward(int unit) = 0;
  virtual void after_backward(int unit) = 0;
  virtual Recompute recompute(int unit) const = 0;
  // Whether this unit or one before it has parameters that want gradients.
  virtual bool wants_backward(int unit) const { return (void)unit, true; }
};

struct UnitInfo {
  std::string name;
  Module* module;
  bool is_block;             // one of a series of equal units, to which recomputation applies
  std::vector<int> borrows;  // units whose parameters this one uses too (tied embeddings)
};

// What plans, logs and loaders say of a model or take from it. The defaults stand for "unknown".
struct ModelFacts {
  std::string name;            // in the log: "gpt2 4 layers x 128"; empty: its row's, or "model"
  std::string details;         // in plans: its whole shape; empty: the name
  Size vocab = 0;              // tokens of batches must be below it; 0: not checked
  double flops_per_token = 0;  // of training; 0: no FLOPs utilization is shown
  Size head_dim = 0;           // for the estimated time of attention
  bool gated_ffn = false;      // for the choice of measured rates
};

class Model : public Module {
 public:
  // The units in the order in which loss() runs them. Every parameter belongs to exactly one.
  const std::vector<UnitInfo>& units() const { return units_; }
  // All parameters with full names, units in order.
  std::vector<NamedParameter> all_parameters() const;
  Size parameter_count() const;

  // Mean loss of a batch, a scalar. Runs every unit once, in order, through run().
  virtual Tensor loss(const Batch& batch) = 0;

  // Facts about training on sequences of `seq` tokens. A plan and a run work without them.
  virtual ModelFacts facts(Size seq) const { return (void)seq, ModelFacts(); }
  // A batch of `samples` samples on the meta device, with the shapes and dtypes that loss() takes. A plan and the check
  // of a run's memory step on it. By default inputs and targets are i32 [samples, seq].
  virtual Batch batch_on_meta(Size samples, Size seq) const;

  // Allocates all parameters and buffers on a device, for use without an engine, with initial values for `seed`.
  void materialize(Device device, DType dtype, std::uint64_t seed);
  // Allocates the buffers alone.
  void materialize_buffers(Device device, DType dtype);
  const UnitObserver* observer() const { return observer_; }
  void set_observer(UnitObserver* observer) { observer_ = observer; }
  // Leaves another observer in its place.
  void remove_observer(const UnitObserver* observer) {
    if (observer_ == observer) observer_ = nullptr;
  }

 protected:
  template <class M, class... Args>
  M& add_unit(std::string name, Args&&... args) {
    M& module = add<M>(name, std::forward<Args>(args)...);
    units_.push_back({std::move(name), &module, false, {}});
    return module;
  }
  template <class M, class... Args>
  M& add_block(std::string name, Args&&... args) {
    M& module = add_unit<M>(std::move(name), std::forward<Args>(args)...);
    units_.back().is_block = true;
    for (const NamedParameter& entry : module.parameters()) entry.parameter->put_in_block();
    return module;
  }
  // Declares that `user` needs the parameters of `owner` too, such as a head that multiplies by the embedding's table.
  // Throws UsageError unless `owner` was added before `user`.
  void borrow(const Module& user, const Module& owner);
  // Runs one unit's forward pass and records its backward pass. Recomputation runs `body` a second time, so `body` must
  // capture its inputs by value, and only the tensor that it returns may be used outside of it: another one that it
  // leaves behind has no gradient where it is recomputed. Throws UsageError inside the body of another unit.
  Tensor run(const Module& unit, const std::function<Tensor()>& body);

 private:
  int index_of(const Module& unit) const;

  std::vector<UnitInfo> units_;
  UnitObserver* observer_ = nullptr;
};

// Writes to `values`, contiguous and of any floating dtype, elements [begin, begin + values.elements()) of the initial
// values of parameter `name`, on their device.
void initial_values(const Tensor& values, const std::string& name, Init init, std::uint64_t seed, Size begin);

// The settings of a forward pass, the same for every rank count.
struct ForwardContext {
  bool training = false;           // dropout is on
  std::uint64_t seed = 0;          // for dropout
  std::uint64_t first_sample = 0;  // index of the batch's first sample in the run
  ops::LossOptions loss = {};      // for cross_entropy() and the head of transformers
  // In device memory, if not null: a number of samples that adds to `first_sample`.
  const std::uint64_t* samples_before = nullptr;
  Size samples = 0;  // of the batch; 0: unknown
  static const ForwardContext& current();
};

class ForwardScope {
 public:
  explicit ForwardScope(ForwardContext context) : context_(std::move(context)), current_(&context_) {}

 private:
  const ForwardContext context_;
  const ContextMemberScope<&lt::Context::forward> current_;
};

// ops::cross_entropy() with the current pass's options: under an engine, the mean counts the targets of the global
// batch.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets);

// Dropout of floating x [samples, ...] with probability p in [0, 1) at the place named `site`; x itself outside of an
// engine's training steps. The mask of a sample depends on (seed, site, its index), so each place in a model needs a
// name of its own, such as "blocks.3.ffn". Throws UsageError for another p, and for another first dimension, with which
// samples would share masks.
Tensor dropout(const Tensor& x, double p, std::string_view site);

}  // namespace nn
}  // namespace lt
