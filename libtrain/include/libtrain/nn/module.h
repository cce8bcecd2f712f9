// Modules and models. A model is a chain of *units* (embedding, blocks, head). An engine gathers, frees and recomputes
// each unit as a whole. A model does not know how it is sharded; it tells an observer when a unit starts and ends.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "libtrain/api.h"
#include "libtrain/ops/ops.h"
#include "libtrain/tensor/autograd.h"
#include "libtrain/tensor/batch.h"
#include "libtrain/tensor/tensor.h"

namespace lt {
namespace LT_API nn {

// Initial values: a normal distribution with this mean and standard deviation. Element i is a pure function of (seed,
// parameter name, i).
struct Init {
  float mean = 0, deviation = 0;
  static Init constant(float value) { return {value, 0}; }
  static Init normal(float deviation) { return {0, deviation}; }
};

// A parameter of a module. It has a shape from the start, and a tensor once the model is bound to a device and dtype.
class Parameter {
 public:
  Parameter(const Shape& shape, Init init) : shape_(shape), init_(init) {}

  const Shape& shape() const { return shape_; }
  Init init() const { return init_; }
  // True if weight decay applies: the parameter has two or more dimensions.
  bool decays() const { return shape_.dims() >= 2; }
  // A parameter [rows, columns] may stack several independent matrices, such as q, k and v. Returns the rows of each:
  // by default one entry with all rows. Returns an empty vector if the parameter does not have two dimensions.
  std::vector<Size> matrix_rows() const;
  // Throws UsageError unless the rows are positive and add up to the parameter's. An empty vector restores the default.
  void set_matrix_rows(std::vector<Size> rows);
  // True for a parameter of two dimensions in a block (Model::add_block()).
  bool is_block_matrix() const { return in_block_ && shape_.dims() == 2; }
  void put_in_block() { in_block_ = true; }
  // Throws UsageError before bind(). Under an engine, the tensor holds the parameter's values only inside Model::run()
  // and Engine::with_parameters(). Elsewhere a step may still be writing to it, and writes by the caller are lost.
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

// A constant that the constructor of a module makes, such as a table of positions or a mask. It is not trained: it has
// no gradient and no optimizer state. Every rank makes and holds the same values, unsharded. Checkpoints do not contain
// them.
class Buffer {
 public:
  // Copies `values`. Throws UsageError if they are undefined or not on the CPU.
  Buffer(std::string name, const Tensor& values);

  // Returns a copy on `device`. Floating values are rounded to `dtype`; integers keep their dtype. The ledger counts
  // the copy for the owner `constants`.
  Tensor copy_on(Device device, DType dtype) const;
  // Returns the copy that has the device and dtype of the parameters. Throws UsageError before bind().
  const Tensor& tensor() const;
  void bind(Tensor tensor) { tensor_ = std::move(tensor); }

 private:
  std::string name_;
  Tensor values_;  // on the CPU, as given; not in the ledger
  Tensor tensor_;
};

class Model;

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Returns the module's own parameters, then its children's, depth first in order of registration. Names start with
  // `prefix`.
  std::vector<NamedParameter> parameters(const std::string& prefix = "") const;
  // Returns the module's own buffers, then its children's, in the same order.
  std::vector<Buffer*> buffers() const;
  // The name in the model, such as "blocks.3.attention"; empty until the module is part of a unit.
  const std::string& path() const { return path_; }

 protected:
  Parameter& add_parameter(std::string name, const Shape& shape, Init init);
  // Copies `values` of any dtype. Throws UsageError unless they are on the CPU.
  Buffer& add_buffer(std::string name, const Tensor& values);
  // Makes a child of type M. This module owns it. Children are made in the constructor of their parent: throws
  // UsageError if this module is already part of a model's unit.
  template <class M, class... Args>
  M& add(std::string name, Args&&... args) {
    return own(std::move(name), std::make_unique<M>(std::forward<Args>(args)...));
  }
  // For a module with options: add<nn::Linear>("up", {.in = 4, .out = 8}).
  template <class M>
  M& add(std::string name, typename M::Options options) {
    return own(std::move(name), std::make_unique<M>(std::move(options)));
  }

 private:
  friend Model;
  template <class M>
  M& own(std::string name, std::unique_ptr<M> child) {
    require_no_path(name);
    M& reference = *child;
    children_.emplace_back(std::move(name), std::move(child));
    return reference;
  }
  void require_no_path(const std::string& child) const;
  void set_path(const std::string& path);  // of this module; its children follow

  std::string path_;
  std::vector<std::pair<std::string, std::unique_ptr<Parameter>>> parameters_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> children_;
};

// How much of a unit's forward pass is recomputed in its backward pass.
enum class Recompute : std::uint8_t {
  none,       // nothing; everything is kept
  selective,  // norms and activations; outputs of matmuls and attention are kept
  full,       // everything; only the unit's inputs are kept (Chen et al. 2016)
};
inline constexpr std::string_view kRecomputeNames[] = {"none", "selective", "full"};  // values of parallel.recompute

// Model::run() calls these before and after the passes of each unit. `unit` is an index into Model::units().
class UnitObserver {
 public:
  virtual ~UnitObserver() = default;
  virtual void before_forward(int unit) = 0;
  virtual void after_forward(int unit) = 0;
  virtual void before_backward(int unit) = 0;
  virtual void after_backward(int unit) = 0;
  virtual Recompute recompute(int unit) const = 0;
  // True if this unit or one before it has parameters that want gradients. Otherwise the unit has no backward pass.
  virtual bool wants_backward(int unit) const { return (void)unit, true; }
};

struct UnitInfo {
  std::string name;
  Module* module;
  bool is_block;             // one of a series of equal units; only these are recomputed
  std::vector<int> borrows;  // indices of earlier units whose parameters this unit also uses (tied embeddings)
};

// Facts about a model for plans, logs and data loaders. The defaults mean "unknown".
struct ModelFacts {
  std::string name = {};       // for the log: "gpt2 4 layers x 128"; empty: the name in the table of models, or "model"
  std::string details = {};    // for plans: the complete shape; empty: same as `name`
  Size vocab = 0;              // upper bound of token ids, exclusive; 0: ids are not checked
  double flops_per_token = 0;  // FLOPs per token of training; 0: no FLOPs utilization is shown
  Size head_dim = 0;           // channels per attention head, for the estimate of attention's time
  bool gated_ffn = false;      // true: plans use measured rates of RMSNorm and SwiGLU; false: of LayerNorm and GELU
};

namespace detail {
// True for a function, and for a class that may capture `this` and has no space for more.
template <class Body>
inline constexpr bool is_small_capture = !std::is_class_v<Body> || std::is_empty_v<Body> ||
                                         (sizeof(Body) == sizeof(void*) && std::is_trivially_copyable_v<Body>);

// Copies of the inputs of Model::run(), and references to modules.
template <class Input>
using Kept = std::conditional_t<std::is_base_of_v<Module, Input>, const Input&, std::decay_t<Input>>;
template <class... Inputs>
std::tuple<Kept<Inputs>...> kept(const Inputs&... inputs) {
  return {inputs...};
}
}  // namespace detail

class Model : public Module {
 public:
  // Returns the units in the order in which loss() runs them. Every parameter must belong to exactly one unit.
  const std::vector<UnitInfo>& units() const { return units_; }
  // Returns all parameters with full names, in order of units.
  std::vector<NamedParameter> all_parameters() const;
  Size parameter_count() const;  // elements of all parameters

  // Returns the mean loss of a batch, a scalar. An override must run every unit once, in order, through run().
  virtual Tensor loss(const Batch& batch) = 0;

  // Returns facts about training on sequences of `seq` tokens. Plans and runs also work with the defaults.
  virtual ModelFacts facts(Size seq) const { return (void)seq, ModelFacts(); }
  // Returns a batch of `samples` samples on the meta device, with the shapes and dtypes that loss() expects. Plans and
  // a run's memory check rehearse steps on it: a rehearsal is a dry run of a step on shapes only. By default inputs and
  // targets are i32 [samples, seq].
  virtual Batch batch_on_meta(Size samples, Size seq) const;
  // Returns the tokens of a sample in runs and plans whose train.seq is 0: 1 if samples are not sequences. By default
  // 0: such a run is an error. Depends on nothing but what the constructor was given.
  virtual Size default_seq() const { return 0; }

  // Allocates all parameters and buffers on `device`, for use without an engine. Parameters get the initial values for
  // `seed` and collect gradients. Removes the observer.
  void materialize(Device device, DType dtype, std::uint64_t seed);
  // Like materialize(), but allocates only the buffers.
  void materialize_buffers(Device device, DType dtype);
  const UnitObserver* observer() const { return observer_; }
  void set_observer(UnitObserver* observer) { observer_ = observer; }
  // Removes `observer` unless another one has replaced it.
  void remove_observer(const UnitObserver* observer) {
    if (observer_ == observer) observer_ = nullptr;
  }

 protected:
  // Makes a unit, or a block, of type M. Arguments are as in add().
  template <class M, class... Args>
  M& add_unit(std::string name, Args&&... args) {
    return as_unit(add<M>(name, std::forward<Args>(args)...), name, false);
  }
  template <class M>
  M& add_unit(std::string name, typename M::Options options) {
    return as_unit(add<M>(name, std::move(options)), name, false);
  }
  template <class M, class... Args>
  M& add_block(std::string name, Args&&... args) {
    return as_unit(add<M>(name, std::forward<Args>(args)...), name, true);
  }
  template <class M>
  M& add_block(std::string name, typename M::Options options) {
    return as_unit(add<M>(name, std::move(options)), name, true);
  }
  // Declares that unit `user` also uses the parameters of unit `owner`, as a head that multiplies by the embedding's
  // table. Throws UsageError unless both are units and `owner` was added before `user`.
  void borrow(const Module& user, const Module& owner);
  // Runs one unit's forward pass, records its backward pass, and returns the result of `body`: a Tensor, or a
  // std::vector, std::array, std::pair or std::tuple of tensors. `body` is a function of `unit` and `inputs`, such as
  // run(*block, &Block::forward, x), or of `inputs` alone, such as run(head, [this](const Tensor& x) {...}, x). It may
  // run a second time for recomputation. So it takes everything it reads as an input, of which the recorded pass keeps
  // a copy (a module it keeps by reference), and it may capture only `this`.
  // A tensor made in `body` may be used only there, unless `body` returns it. Any operation on it elsewhere throws
  // UsageError, while gradients are recorded. Code outside must use the result of run(), not the body's own tensor.
  // run() throws UsageError if `unit` is not a unit of this model, if `body` captures something other than `this`,
  // inside the body of another unit, and if `body` returns an undefined tensor.
  template <class Unit, class Body, class... Inputs>
  auto run(Unit& unit, Body body, const Inputs&... inputs) {
    static_assert(detail::is_small_capture<Body>,
                  "the body of run() may capture only `this`: pass what it reads as an input");
    static_assert(std::is_invocable_v<Body&, Unit&, const Inputs&...> || std::is_invocable_v<Body&, const Inputs&...>,
                  "the body of run() must take the unit and all inputs, or all inputs");
    if constexpr (std::is_class_v<Body> && !std::is_empty_v<Body>) require_captures_this(unit, &body);
    if constexpr (std::is_invocable_v<Body&, Unit&, const Inputs&...>) {
      return run_with(unit, [body, &unit, kept = detail::kept(inputs...)]() mutable {
        return std::apply([&](const auto&... values) { return std::invoke(body, unit, values...); }, kept);
      });
    } else {
      return run_with(
          unit, [body, kept = detail::kept(inputs...)]() mutable { return std::apply(body, std::as_const(kept)); });
    }
  }

 private:
  template <class M>
  M& as_unit(M& module, const std::string& name, bool is_block) {
    append_unit(module, name, is_block);
    return module;
  }
  void append_unit(Module& module, const std::string& name, bool is_block);
  template <class Body>
  std::invoke_result_t<Body&> run_with(const Module& unit, Body body) {
    using Results = std::invoke_result_t<Body&>;
    return lt::detail::from_list<Results>(
        run_unit(unit, [body = std::move(body)]() mutable { return lt::detail::to_list<Results>(body()); }));
  }
  std::vector<Tensor> run_unit(const Module& unit, const std::function<std::vector<Tensor>()>& body);
  // `capture` is the address of a pointer.
  void require_captures_this(const Module& unit, const void* capture) const;
  int index_of(const Module& unit) const;

  std::vector<UnitInfo> units_;
  UnitObserver* observer_ = nullptr;
};

// Writes elements [begin, begin + values.elements()) of the initial values of parameter `name` to `values`, which must
// be contiguous and of a floating dtype. Runs on the device of `values`.
void initial_values(const Tensor& values, const std::string& name, Init init, std::uint64_t seed, Size begin);

// The settings of a forward pass. Samples are numbered through the run, over all ranks, so dropout does not depend on
// the rank count.
struct ForwardContext {
  bool training = false;           // true: dropout applies
  std::uint64_t seed = 0;          // for dropout
  std::uint64_t first_sample = 0;  // the batch's first sample has the number first_sample + *samples_before
  ops::LossOptions loss = {};      // for cross_entropy() and the head of transformers
  // In device memory: the number of samples before this step, which is added to `first_sample`. Null: 0.
  const std::uint64_t* samples_before = nullptr;
  Size samples = 0;  // number of samples in the batch; 0: unknown
  // Returns the context of this thread; outside of any ForwardScope, the defaults.
  static const ForwardContext& current();
};

// Sets this thread's ForwardContext until the scope ends.
class ForwardScope {
 public:
  explicit ForwardScope(ForwardContext context) : context_(std::move(context)), current_(&context_) {}

 private:
  const ForwardContext context_;
  const ContextMemberScope<&lt::Context::forward> current_;
};

// ops::cross_entropy() with the options of the current forward pass. In an engine's training step, the mean is over the
// non-ignored targets of the global batch.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets);

// Applies dropout with probability p in [0, 1) to floating x [samples, ...]. Returns x outside an engine's training
// steps. The mask of a sample depends on (seed, site, number of the sample), so each place in a model needs its own
// `site`, such as "blocks.3.ffn". In a training step, throws UsageError for another p, and if the first dimension is
// not the number of samples, because samples would then share masks.
Tensor dropout(const Tensor& x, double p, std::string_view site);

}  // namespace nn
}  // namespace lt
