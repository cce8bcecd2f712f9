// plan = run: peak, ledger and communication of an engine on these ranks equal the planner's to the byte.
#include "libtrain/plan/planner.h"

#include "device/cuda.h"
#include "libtrain/config/resolved.h"
#include "memory/workspace.h"
#include "parallel/synthetic.h"
#include "plan/run_batches.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::planner;
using namespace lt_test;

namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

// Sizes without any alignment: an odd vocabulary and FFN, heads of three channels, a sequence of seven.
const Options kUneven = {{"model.family", "gpt2"}, {"model.layers", "3"},   {"model.width", "15"},
                         {"model.heads", "5"},     {"model.kv_heads", "5"}, {"model.ffn", "37"},
                         {"model.vocab", "101"},   {"model.max_seq", "9"},  {"train.seq", "7"}};
// Heads of their own size, norms of queries and keys, biases, a window.
const Options kWindow = {{"model.preset", "llama-tiny"}, {"model.head_dim", "10"}, {"model.qk_norm", "true"},
                         {"model.qkv_bias", "true"},     {"model.window", "5"},    {"train.seq", "16"}};
const Options kGpt = {{"model.preset", "gpt-tiny"}, {"train.seq", "16"}};
const Options kLlama = {{"model.preset", "llama-tiny"}, {"train.seq", "16"}};

struct Use {
  MemoryUse peak;
  std::vector<std::array<Size, 3>> comm;  // operation, bytes, calls
};

// The plan counts rank 0; in an exchange of matrices, ranks send different amounts.
std::vector<std::array<Size, 3>> rows(const std::vector<CommTotal>& totals) {
  std::vector<std::array<Size, 3>> result;
  for (const CommTotal& total : totals) {
    const bool differs = total.op == CollectiveOp::all_to_all && ranks().rank() > 0;
    result.push_back({static_cast<Size>(total.op), differs ? 0 : total.bytes, total.calls});
  }
  return result;
}

Batch zeros(Size samples, Size seq) {
  const MemoryScope owner(MemoryOwner::data);
  return {Tensor::zeros({samples, seq}, DType::i32, kCpu), Tensor::zeros({samples, seq}, DType::i32, kCpu)};
}

// Three steps and an evaluation, as the trainer runs them.
Use run(const Resolved& resolved) {
  const auto model = nn::make_transformer(*resolved.transformer);
  EngineOptions options = resolved.step;
  options.device = test_device();
  if (test_device().type == DeviceType::cuda)
    memory::make_workspace(test_device().index);  // otherwise only the first run's
  const Size fixed_bytes = memory::workspace_bytes(test_device().type);
  MemoryUse before = memory_live(test_device());
  before.total -= fixed_bytes;
  before.by_owner[static_cast<std::size_t>(MemoryOwner::workspace)] -= fixed_bytes;
  Engine engine(*model, ranks(), resolved.parallel, resolved.optimizers, options);
  const BatchShape shape = engine.batch_shape();
  const Batch batch = zeros(shape.samples(), shape.seq);
  const bool evaluates = resolved.evaluation.every > 0;
  const Batch validation = evaluates ? zeros(shape.micro_batch, shape.seq) : Batch{};
  const RunBatches shapes = batches_on_meta(*model, shape, resolved);
  engine.rehearse(shapes.step, shapes.evaluation);
  reset_memory_peak(test_device());
  Use use;
  const int steps = test_device() == kCpu ? 2 : 3;  // on a GPU a later one may be a graph
  for (int step = 0; step < steps; ++step) {
    take_comm_totals();
    engine.step(batch);
    use.comm = rows(take_comm_totals());
  }
  if (evaluates) engine.evaluate(validation);
  use.peak = memory_peak(test_device());
  use.peak.total -= before.total;
  for (std::size_t i = 0; i < kMemoryOwners; ++i) use.peak.by_owner[i] -= before.by_owner[i];
  return use;
}

void check(Options options, const Options& more) {
  options.insert(options.end(), more.begin(), more.end());
  std::string described;
  for (const auto& [key, value] : options) described += key + "=" + value + " ";
  INFO(described);
  const Resolved resolved = resolve(load_config("", options), ranks().size(), test_device().type);
  const Use used = run(resolved);
  const Plan plan = make_plan(resolved.config, ranks().size());
  CHECK(used.peak.total == plan.peak_bytes);
  CHECK(used.peak.by_owner == plan.ledger.by_owner);
  CHECK(used.comm == rows(plan.comm));
  Size sum = 0;
  for (const Size bytes : plan.ledger.by_owner) sum += bytes;
  CHECK(sum == plan.peak_bytes);
}

}  // namespace

TEST_CASE("plan = run: every model, strategy, recomputation and accumulation", "[train]") {
  for (const Options& model : {kGpt, kLlama, kUneven, kWindow}) {
    if (ranks().size() == 3 && test_device() == kCpu && model != kUneven) continue;  // two and four run the others
    for (const Strategy& strategy : kStrategies) {
      for (const char* recompute : {"none", "selective", "full"}) {
        for (const char* accum : {"1", "3"}) {
          check(model, {{"parallel.strategy", std::string(strategy.name)},
                        {"parallel.recompute", recompute},
                        {"train.accum", accum},
                        {"train.micro_batch", "2"}});
        }
      }
    }
  }
}

TEST_CASE("plan = run: moments in bf16, weights without masters, groups", "[train]") {
  for (const char* const strategy : {"ddp", "zero1", "zero2", "zero3"}) {
    for (const Options& optimizer :
         {Options{{"optim.state_dtype", "bf16"}}, Options{{"optim.master", "none"}},
          Options{{"optim.state_dtype", "bf16"}, {"optim.master", "none"}}, Options{{"optim.ema", "0.9"}},
          Options{{"optim.groups", R"([{"match": "*norm*", "lr_scale": 2}])"}}, Options{{"optim.name", "muon"}},
          Options{{"optim.name", "muon"}, {"train.dtype", "f32"}, {"model.freeze", "blocks.0.*"}}}) {
      Options options = {{"parallel.strategy", strategy}, {"train.dtype", "bf16"}};
      options.insert(options.end(), optimizer.begin(), optimizer.end());
      check(kUneven, options);
    }
  }
}

TEST_CASE("plan = run: dtypes, determinism, evaluation, hybrid, every second block", "[train]") {
  for (const Options& model : {kLlama, kUneven}) {
    for (const char* strategy : {"ddp", "zero1", "zero3"}) {
      const std::pair<std::string, std::string> chosen{"parallel.strategy", strategy};
      check(model, {chosen, {"train.dtype", "bf16"}});
      check(model, {chosen, {"train.dtype", "f16"}});
      check(model, {chosen, {"train.dtype", "bf16"}, {"parallel.reduce_dtype", "bf16"}});
      check(model, {chosen, {"train.deterministic", "true"}});
      if (world().size() != 3) {
        for (const char* accum : {"1", "5"}) {
          check(
              model,
              {chosen, {"train.deterministic", "elastic"}, {"train.accum", accum}, {"parallel.reduce_dtype", "bf16"}});
        }
      }
      check(model, {chosen, {"train.eval_every", "1"}, {"parallel.recompute", "full"}});
      check(model, {chosen, {"parallel.recompute", "full"}, {"parallel.recompute_every", "2"}});
      check(model, {chosen, {"model.dropout", "0.1"}});
    }
    if (world().size() != 4) continue;
    for (const char* strategy : {"zero1", "zero2", "zero3"}) {
      const Options hybrid{{"parallel.strategy", strategy}, {"parallel.shard_size", "2"}};
      Options recomputed = hybrid, elastic = hybrid;
      recomputed.push_back({"parallel.recompute", "full"});
      elastic.insert(elastic.end(), {{"train.deterministic", "elastic"}, {"train.accum", "5"}});
      check(model, recomputed), check(model, elastic);
    }
  }
}

TEST_CASE("plan = run: FP8 with every recomputation", "[train]") {
  for (const Options& model : {kLlama, kGpt}) {
    for (const char* strategy : {"ddp", "zero1", "zero3"}) {
      for (const char* recompute : {"none", "selective", "full"}) {
        check(model, {{"parallel.strategy", strategy},
                      {"train.dtype", "fp8"},
                      {"train.accum", "2"},
                      {"parallel.recompute", recompute}});
      }
    }
  }
}

// A sample is generated beside the arena while that is empty.
TEST_CASE("plan: samples add to what steps hold, and do not turn it into slack", "[train]") {
  for (const char* const strategy : {"ddp", "zero3"}) {
    const auto plan = [&](const char* sample_every) {
      Options options = kGpt;
      options.insert(options.end(), {{"parallel.strategy", strategy}, {"train.sample_every", sample_every}});
      return make_plan(load_config("", options), 2);
    };
    const Plan without = plan("0"), with = plan("1");
    REQUIRE(with.peak_bytes > without.peak_bytes);
    Size sum = 0;
    for (std::size_t i = 0; i < kMemoryOwners; ++i) {
      CHECK(with.ledger.by_owner[i] >= without.ledger.by_owner[i]);
      sum += with.ledger.by_owner[i];
    }
    CHECK(sum == with.peak_bytes);
    CHECK(with.per_rank.at(0) == with.peak_bytes);
    // Under ZeRO-3 all ranks hold the whole parameters meanwhile.
    CHECK((with.per_rank.at(1) > without.peak_bytes) == (strategy == std::string_view("zero3")));
    CHECK(with.per_rank.at(1) >= without.peak_bytes);
    CHECK(with.per_rank.at(1) < with.peak_bytes);
  }
}

TEST_CASE("plan = run: frozen parameters have no gradient, no state and no reduction", "[train]") {
  for (const char* const strategy : {"ddp", "zero1", "zero2", "zero3"}) {
    for (const char* const patterns : {"embedding*", "embedding*,blocks.0.*", "blocks.1.*", "*norm*"}) {
      check(kGpt, {{"parallel.strategy", strategy}, {"model.freeze", patterns}, {"train.dtype", "bf16"}});
    }
  }
  const auto plan = [](const std::string& patterns) {
    Options options = kLlama;
    options.insert(options.end(), {{"parallel.strategy", "zero3"}, {"model.freeze", patterns}});
    return make_plan(load_config("", options), 2);
  };
  const auto calls = [](const Plan& made, CollectiveOp op) {
    Size count = 0;
    for (const CommTotal& total : made.comm) count += total.op == op ? total.calls : 0;
    return count;
  };
  // Embedding, four blocks, head. A frozen block is gathered once, for its forward pass.
  const Plan all = plan(""), some = plan("embedding*,blocks.0.*,blocks.1.*"), middle = plan("blocks.2.*");
  CHECK(calls(all, CollectiveOp::reduce_scatter) == 6);
  CHECK(calls(some, CollectiveOp::reduce_scatter) == 3);
  CHECK(calls(middle, CollectiveOp::reduce_scatter) == 5);
  CHECK(calls(all, CollectiveOp::all_gather) - calls(some, CollectiveOp::all_gather) == 3);
  CHECK(calls(all, CollectiveOp::all_gather) == calls(middle, CollectiveOp::all_gather));
  CHECK(some.step_time.matmuls_ms < 0.8 * all.step_time.matmuls_ms);
}
