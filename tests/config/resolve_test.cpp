// Resolves a configuration to the options of each component: every key reaches the right field. In the first case all
// values differ, so that swapped values are noticed.
#include "libtrain/config/resolved.h"

#include "config/config_layers.h"
#include "test_main/catch.h"

using namespace lt;
using lt_test::from_file;

namespace {

Resolved resolved(const char* toml) { return resolve(from_file(toml), 1, DeviceType::cpu); }

// The numbers of an optimizer are inside of its functions. Returns what two updates leave in weights, states and
// direction.
std::vector<std::vector<float>> updated(const Optimizer& row) {
  const std::vector<float> start{1, -2, 3, -4, 5, -6, 7, -8}, gradient{1, 0.5f, -1, 0.25f, -2, 3, 0.125f, -0.75f};
  const lt::Shape shape{8};
  const StepNumbers numbers{.lr = 0.5f, .bias = {0.5f, 0.25f, 0.75f, 1}};
  const RoundingSegments segments{.count = 1, .segments = {{0, 0, 7}}};
  const bool rounds = !row.masters || row.states[0].dtype == DType::bf16;
  std::vector<Tensor> states;
  for (const StateKind& state : row.states) states.push_back(Tensor::zeros(shape, state.dtype));
  UpdateRange range{.weights = Tensor::empty(shape, row.masters ? DType::f32 : DType::bf16),
                    .states = states,
                    .gradient = Tensor::from(gradient, shape),
                    .copy = {},
                    .decayed = 6,
                    .numbers = &numbers,
                    .rounding = rounds ? &segments : nullptr,
                    .direction = row.matrices ? Tensor::zeros(shape, DType::f32) : Tensor()};
  copy(range.weights, Tensor::from(start, shape));
  for (int step = 0; step < 2; ++step) {
    if (!row.matrices) {
      row.update(range);
      continue;
    }
    row.matrices->begin(range);
    row.matrices->end(range);
  }
  std::vector<std::vector<float>> values;
  states.push_back(range.weights);
  if (row.matrices) states.push_back(range.direction);
  for (const Tensor& state : states) {
    const Tensor in_f32 = Tensor::empty(shape, DType::f32);
    copy(in_f32, state);
    values.push_back(in_f32.to_vector<float>());
  }
  return values;
}

void check_group(const OptimizerGroup& group, const std::string& match, double lr_scale, const Optimizer& expected) {
  INFO(match << " " << expected.name);
  CHECK(group.match == match);
  CHECK(group.lr_scale == lr_scale);
  CHECK(group.optimizer.name == expected.name);
  CHECK(group.optimizer.states == expected.states);
  CHECK(group.optimizer.betas == expected.betas);
  CHECK(group.optimizer.masters == expected.masters);
  CHECK(updated(group.optimizer) == updated(expected));
}

}  // namespace

TEST_CASE("resolve: every key arrives", "[config]") {
  const Resolved config = resolved(R"(
[model]
preset = "gpt-tiny"
freeze = ["embedding*", "head.norm*"]
[parallel]
strategy = "zero2"
shard_size = 2
recompute = "selective"
recompute_every = 3
reduce_dtype = "bf16"
[train]
steps = 11
micro_batch = 13
accum = 5
seq = 48
dtype = "fp8"
device = "cuda"
seed = 17
deterministic = true
cuda_graph = false
z_loss = 0.0625
label_smoothing = 0.1875
[optim]
name = "muon"
lr = 0.5
min_lr = 0.03125
warmup = 7
schedule = "linear"
beta1 = 0.4
beta2 = 0.8
eps = 0.7
weight_decay = 0.3
momentum = 0.6
clip = 2.5
state_dtype = "bf16"
master = "none"
ema = 0.2
groups = [{match = "*norm*", lr_scale = 4, weight_decay = 0.9, optimizer = "adamw"},
          {match = "blocks.1.*", lr_scale = 0.25}]
)");

  const ParallelOptions parallel = config.parallel;
  CHECK(parallel.strategy == Strategy::zero2);
  CHECK(parallel.shard_size == 2);
  CHECK(parallel.recompute == Recompute::selective);
  CHECK(parallel.recompute_every == 3);
  CHECK(parallel.reduce_dtype == DType::bf16);
  CHECK(parallel.deterministic == lt::Determinism::on);

  const EngineOptions step = config.step;
  CHECK(step.micro_batch == 13);
  CHECK(step.accum == 5);
  CHECK(step.seq == 48);
  CHECK(step.dtype == DType::bf16);
  CHECK(step.device == Device{DeviceType::cuda, 0});
  CHECK(step.seed == 17);
  CHECK_FALSE(step.cuda_graph);
  CHECK_FALSE(step.tf32);
  CHECK(step.fp8);
  CHECK(step.z_loss == 0.0625);
  CHECK(step.label_smoothing == 0.1875);

  const BatchShape shape = config.batch_shape(1, 4);
  CHECK(std::vector<Size>{shape.micro_batch, shape.accum, shape.seq, shape.rank, shape.ranks} ==
        std::vector<Size>{13, 5, 48, 1, 4});

  const Schedule schedule = config.schedule;
  CHECK(schedule.decay == Decay::linear);
  CHECK(schedule.lr == 0.5);
  CHECK(schedule.min_lr == 0.03125);
  CHECK(schedule.warmup == 7);
  CHECK(schedule.steps == 11);

  const OptimizerGroups optimizers = config.optimizers;
  CHECK(optimizers.lr == 0.5);
  CHECK(optimizers.clip == 2.5);
  CHECK(optimizers.frozen == std::vector<std::string>{"embedding*", "head.norm*"});
  CHECK(optimizers.trained.empty());
  const auto adamw = [](float weight_decay) {
    return averaged(AdamW{.beta1 = 0.4f,
                          .beta2 = 0.8f,
                          .eps = 0.7f,
                          .weight_decay = weight_decay,
                          .state_dtype = DType::bf16,
                          .masters = false},
                    0.2);
  };
  const Optimizer muon =
      averaged(Muon{.momentum = 0.6f, .weight_decay = 0.3f, .state_dtype = DType::bf16, .masters = false}, 0.2);
  REQUIRE(optimizers.groups.size() == 5);
  check_group(optimizers.groups[0], "*norm*", 4, adamw(0.9f));
  check_group(optimizers.groups[1], "blocks.1.*", 0.25, muon);
  check_group(optimizers.groups[2], "blocks.1.*", 0.25, adamw(0.3f));
  check_group(optimizers.groups[3], "*", 1, muon);
  check_group(optimizers.groups[4], "*", 1, adamw(0.3f));
}

TEST_CASE("resolve: every choice arrives", "[config]") {
  const Resolved tf32 = resolved("[train]\ndevice = \"cuda\"\ntf32 = true\n[parallel]\nrecompute = \"full\"\n");
  CHECK(tf32.step.tf32);
  CHECK(tf32.step.dtype == DType::f32);
  CHECK(tf32.step.cuda_graph);
  CHECK_FALSE(tf32.step.fp8);
  CHECK(tf32.parallel.recompute == Recompute::full);
  CHECK(tf32.parallel.reduce_dtype == DType::f32);

  const Resolved f16 = resolved("[train]\ndtype = \"f16\"\n[optim]\nlr = 0.5\nclip = 0\n");
  CHECK(f16.step.dtype == DType::f16);
  CHECK(f16.step.device == kCpu);
  CHECK_FALSE(f16.step.cuda_graph);
  CHECK(f16.parallel.recompute == Recompute::none);
  CHECK(f16.parallel.deterministic == lt::Determinism::off);
  CHECK(f16.schedule.decay == Decay::cosine);
  CHECK(f16.schedule.min_lr == 0.05);
  CHECK(f16.schedule.steps == 1000);
  const OptimizerGroups optimizers = f16.optimizers;
  CHECK(optimizers.clip == 0);
  REQUIRE(optimizers.groups.size() == 1);
  check_group(optimizers.groups[0], "*", 1, AdamW{});

  const Resolved adapters = resolved("[model]\npreset = \"llama-tiny\"\nlora = {rank = 2}\n");
  CHECK(adapters.optimizers.trained == std::vector<std::string>{"*.lora_A", "*.lora_B"});
}

TEST_CASE("resolve: a run saves every 30 minutes unless a key says otherwise", "[config]") {
  const CheckpointConfig neither = resolved("").checkpoint;
  CHECK(neither.every_minutes == 30);
  CHECK_FALSE(neither.async.has_value());  // the run decides, by the memory of its hosts
  CHECK(resolved("[checkpoint]\nasync = false").checkpoint.async == false);
  for (const char* toml : {"[checkpoint]\nevery = 100", "[checkpoint]\nevery_minutes = 0"}) {
    INFO(toml);
    CHECK(resolved(toml).checkpoint.every_minutes == 0);
    CHECK(resolved(toml).checkpoint.async == false);
  }
  CHECK(resolved("[checkpoint]\nevery_minutes = 30").checkpoint.async == false);
  // The configuration of a run says the same to the next start.
  const Config again = from_file(to_toml(resolved("").config), {});
  CHECK(again.checkpoint.every_minutes < 0);
}

TEST_CASE("resolve: train.dtype=auto is bf16 on GPUs and f32 on processors", "[config]") {
  const auto on = [](DeviceType device, const char* toml) { return resolve(from_file(toml), 1, device); };
  CHECK(on(DeviceType::cpu, "").precision == Precision::f32);
  CHECK(on(DeviceType::cuda, "").precision == Precision::bf16);
  CHECK(on(DeviceType::cuda, "[train]\ndevice = \"cpu\"").precision == Precision::f32);
  CHECK(on(DeviceType::cuda, "[train]\ntf32 = true").precision == Precision::f32);
  CHECK(on(DeviceType::cuda, "[train]\ndtype = \"f32\"").precision == Precision::f32);
  CHECK(on(DeviceType::cpu, "[train]\ndtype = \"bf16\"").precision == Precision::bf16);
  const std::string text = to_toml(on(DeviceType::cuda, "[train]\ndtype = \"auto\"").config);
  CHECK(text.find("dtype = \"auto\"  # = \"bf16\"\n") != std::string::npos);
}
