// Fills the option structs of the public headers by designated initialisers, each at its first or an inner field only.
// headers.py compiles it, as a program with strict warnings would be.
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/data/prepare.h"
#include "libtrain/generate/generate.h"
#include "libtrain/launch/cli.h"
#include "libtrain/libtrain.h"
#include "libtrain/tokenizer/chat.h"

using namespace lt;

namespace {

template <class... T>
void use(const T&...) {}

struct Layer : nn::Module {
  struct Options {
    Size width = 1;
    bool gated = false;
  };
  explicit Layer(const Options& options)
      : up(add<nn::Linear>("up", {.in = options.width, .out = 4})), gated(options.gated) {}
  nn::Linear& up;
  bool gated;
};

struct Model : nn::Model {
  explicit Model(const nn::Linear::Options& given)
      : layer(add_block<Layer>("layer", {.width = 4})), head(add_unit<nn::Linear>("head", given)) {}
  Tensor loss(const Batch& batch) override {
    return run(
        layer, [this](const Tensor& x) { return 1 - x / 2 + layer.up(x) * Size{3} - 2.0f * x; }, batch.inputs);
  }
  nn::ModelFacts facts(Size) const override { return {.details = "a model"}; }
  Layer& layer;
  nn::Linear& head;
};

}  // namespace

void strategies() {
  use(ParallelOptions{.strategy = Strategy::zero3}, ParallelOptions{.shard_size = 2}, EngineOptions{.micro_batch = 1},
      EngineOptions{.dtype = DType::bf16}, BatchShape{.seq = 3}, Batch{.inputs = Tensor()}, Batch{.targets = Tensor()},
      RunIds{.id = "a"}, LossScale{.scale = 2}, BatchLoss{.loss = 1});
}

void runs() {
  use(TrainerOptions{.model = {.from = "a"}, .train = {.steps = 1}}, TrainerOptions{.run = {.dir = "a"}},
      OptimGroupConfig{.match = "a", .optimizer = "muon"}, DataSource{.files = {"a"}}, PlanMachine{.device = "h100"},
      PlanMachine{.cores = 2}, MeetingOptions{.shared_folder = nullptr}, WatchdogOptions{.collective_s = 1},
      DataOptions{.vocab = 3}, PrepareOptions{.inputs = {"a"}}, SamplingOptions{.tokens = 1},
      LoadOptions{.device = kCpu}, ChatMessage{.role = "user"}, ModelTable{.transformers = true}, ModelRow{.name = "a"},
      ModelField{.name = "a", .high = 2});
}

void models() {
  use(nn::TransformerSpec{.layers = 1}, nn::TransformerSpec{.vocab = 3}, nn::Lora{.rank = 1}, nn::Init{.deviation = 1},
      nn::Adapter{.rank = 1}, nn::ForwardContext{.training = true}, nn::DecodeState{.length = 1},
      nn::Transformer::Positions{.first = 1}, nn::Linear::Options{.in = 1}, nn::Conv1d::Options{.kernel = 1},
      nn::LayerNorm::Options{.width = 1}, nn::RmsNorm::Options{.eps = 1}, nn::Embedding::Options{.count = 1},
      nn::Dropout::Options{.p = 0}, Model({.in = 4, .out = 2}));
}

void operations(const std::vector<float>& values) {
  use(ops::LossOptions{.z_loss = 1}, ops::RowRange{.size = 1}, ops::LowRank{.scale = 1}, ops::Heads{.heads = 1},
      ops::KvCache{.length = 1}, RopeScaling{.factor = 2}, KernelSettings{.tf32 = true}, Shape{values.size(), 3},
      Tensor::empty({values.size(), 2}, DType::f32), Tensor::from(values, {values.size() / 2, 2}));
}

void optimizers() {
  use(AdamW{.lr = 1}, AdamW{.weight_decay = 1}, Muon{.momentum = 1}, Optimizer{.name = "a"}, Optimizer{.clip = 1},
      OptimizerGroup{.match = "a"}, Schedule{.decay = Decay::cosine}, MatrixUpdate{.begin = nullptr},
      UpdateRange{.decayed = 1}, MatrixStack{.columns = 1});
}

void states() {
  use(checkpoint::RunState{.run = "a"}, checkpoint::DataFile{.path = "a"}, checkpoint::SaveOptions{.keep = 2},
      checkpoint::HfExportOptions{.dtype = DType::bf16}, ShardMap{.parameters = {}}, ParameterInfo{.name = "a"},
      StateRange{.parameter = "a"}, Message{.rank = 1});
}
