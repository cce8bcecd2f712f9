// The planner's estimate: the clock with hand-made work, collectives compared with their formula, counted work compared
// with the model's formula, and whole steps compared with measured ones.
#include "libtrain/libtrain.h"
#include "libtrain/plan/plan_fit.h"
#include "optim/groups.h"
#include "parallel/for_tests.h"
#include "plan/device_model.h"
#include "plan/shard_sizes.h"
#include "plan/step_clock.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::planner;

namespace {

constexpr double kTolerance = 1e-9;  // sums of a few doubles

// 1 TFLOP/s for everything, 1 GB/s of memory, links of 10 and 1 GB/s; two ranks per node.
constexpr DeviceModel round_figures(bool overlaps) {
  return {"round", 1, 1, 2, {1, 1}, {1, 1}, 1, 1, 10, 1, 0, 0, 0, 2, 0, overlaps};
}

void compute(double ms) { profile::count_matmuls(ms * 1e9); }

Plan planned(const std::string& preset, int micro_batch, int seq, const std::string& dtype, const PlanMachine& machine,
             int ranks = 1, const std::string& strategy = "ddp", const std::string& recompute = "none") {
  return make_plan(load_config("", {{"model.preset", preset},
                                    {"train.micro_batch", std::to_string(micro_batch)},
                                    {"train.seq", std::to_string(seq)},
                                    {"train.dtype", dtype},
                                    {"parallel.strategy", strategy},
                                    {"parallel.recompute", recompute}}),
                   ranks, machine);
}

}  // namespace

TEST_CASE("estimate: how groups lie on nodes", "[estimate]") {
  const auto placed = [](int run_ranks, int ranks_per_node, int ranks, int stride) {
    const GroupPlacement group = place_groups({run_ranks, ranks_per_node}, ranks, stride);
    return std::pair(group.smallest_share, group.nodes);
  };
  CHECK(placed(8, 8, 8, 1) == std::pair(8, 1));
  CHECK(placed(16, 8, 16, 1) == std::pair(8, 2));
  CHECK(placed(9, 8, 9, 1) == std::pair(1, 2));
  CHECK(placed(64, 8, 8, 8) == std::pair(1, 8));   // replicas, one on each node
  CHECK(placed(64, 8, 16, 4) == std::pair(2, 8));  // two on each
  CHECK(placed(24, 8, 3, 1) == std::pair(1, 2));   // ranks 6, 7 and 8 are a group
  CHECK(placed(24, 8, 4, 1) == std::pair(4, 1));
}

TEST_CASE("estimate: a collective costs the slower of its links", "[estimate]") {
  const DeviceModel device = round_figures(true);
  const auto cost = [&](const NodeLayout& layout, const CollectiveShape& shape) {
    return collective_cost(device, place_groups(layout, shape.ranks, shape.stride), shape);
  };
  // Sent 30 MB of 40 MB in all. Four ranks on one node: 30 MB at 10 GB/s.
  CHECK(cost({4, 4}, {30'000'000, 4, 1}).ms == Approx(3).epsilon(kTolerance));
  // Two nodes of two: each of two rings sends half of it through its card, and the other half inside the node.
  const CollectiveCost two = cost({4, 2}, {30'000'000, 4, 1});
  CHECK(two.ms == Approx(15).epsilon(kTolerance));
  CHECK(two.local_ms == Approx(1.5).epsilon(kTolerance));
  CHECK(two.over_network);
  // One rank of each node: all of it through one card.
  CHECK(cost({8, 2}, {30'000'000, 4, 2}).ms == Approx(30).epsilon(kTolerance));
  CHECK(cost({8, 2}, {30'000'000, 4, 2}).local_ms == 0);
  // Three and one: one ring, through the card of the one; the three pass all of it on inside their node.
  CHECK(cost({4, 3}, {30'000'000, 4, 1}).ms == Approx(30).epsilon(kTolerance));
  CHECK(cost({4, 3}, {30'000'000, 4, 1}).local_ms == Approx(3).epsilon(kTolerance));
  CHECK(cost({1, 2}, {0, 1, 1}).ms == 0);
  // Each round has a start of its own.
  const DeviceModel& h100 = find_device_model("h100");
  const GroupPlacement node{8, 1};
  CHECK(collective_cost(h100, node, {0, 8, 1, 2}).ms == 2 * collective_cost(h100, node, {0, 8, 1}).ms);
}

TEST_CASE("estimate: the hops of a ring hide behind its transfer, or the transfer behind them", "[estimate]") {
  DeviceModel device = round_figures(true);
  device.local_hop_us = 10, device.network_hop_us = 20, device.network_gb_s = 100;
  const auto cost = [&](int ranks, Size bytes) {
    return collective_cost(device, place_groups({ranks, 2}, ranks, 1), {bytes, ranks, 1});
  };
  // One node: 30 us at 10 GB/s, or half as much for each of two rings; the last message arrives a hop later.
  CHECK(cost(2, 300'000).ms == Approx(0.03 + 0.01).epsilon(kTolerance));
  CHECK_FALSE(cost(2, 300'000).over_network);
  // Four nodes. The transfer takes longer than seven hops: half of 30 MB at 10 GB/s, and a last hop between nodes.
  CHECK(cost(8, 30'000'000).ms == Approx(1.5 + 0.02).epsilon(kTolerance));
  CHECK_FALSE(cost(8, 30'000'000).over_network);  // the link inside a node is the slower one
  // The hops take longer: four between nodes and three inside, each with the transfer of its message of 10 kB.
  CHECK(cost(8, 2 * 7 * 10'000).ms == Approx(4 * (0.02 + 0.0001) + 3 * (0.01 + 0.001)).epsilon(kTolerance));
  CHECK(cost(8, 2 * 7 * 10'000).over_network);
  // A chunk of 1 MiB goes in two slices, and each hop takes the transfer of one.
  device.local_hop_us = 1000;
  CHECK(cost(8, 2 * 7 << 20).ms == Approx(4 * (0.02 + 0.00524288) + 3 * (1 + 0.0524288)).epsilon(kTolerance));
}

TEST_CASE("MFU: the peak of a device is its variant's", "[estimate]") {
  CHECK(dense_tflops_bf16("NVIDIA H100 80GB HBM3") == 989.5);
  CHECK(dense_tflops_bf16("NVIDIA H100 PCIe") == 756);
  CHECK(dense_tflops_bf16("NVIDIA H100 NVL") == 835.5);
  CHECK(dense_tflops_bf16("NVIDIA H200") == 989.5);
  CHECK(dense_tflops_bf16("NVIDIA H100 80GB HBM3 MIG 1g.10gb") == 0);
  CHECK(dense_tflops_bf16("GRID A100-10C") == 0);
  CHECK(dense_tflops_bf16("NVIDIA GH200 480GB") == 989.5);
  CHECK(dense_tflops_bf16("NVIDIA L4") == 0);
  CHECK(dense_tflops_bf16("NVIDIA A100-SXM4-80GB") == 312);
  CHECK(dense_tflops_bf16("NVIDIA RTX A1000 Laptop GPU") == 0);
}

TEST_CASE("estimate: a collective of one rank is not waited for", "[estimate]") {
  const DeviceModel overlapping = round_figures(true), blocking = round_figures(false);
  for (const DeviceModel* device : {&overlapping, &blocking}) {
    StepClock clock({*device, {1, 1}, 1, DType::bf16, 64});
    const profile::WorkScope counted(&clock.work());
    const auto forward = clock.begin({Lane::compute, "forward", {}, true}, {});
    for (int i = 1; i <= 100; ++i) {
      compute(0.01 * i);
      clock.end(clock.begin({Lane::reduce, "alone", {1000, 1, 1}}, {}), {});
    }
    clock.end(forward, {});
    CHECK(clock.take().exposed_local_ms == 0);
  }
}

TEST_CASE("estimate: the clock advances by work, and by what it hides too little of", "[estimate]") {
  const DeviceModel overlapping = round_figures(true), blocking = round_figures(false);
  const CollectiveShape gather{10'000'000, 2, 1};  // 1 ms
  for (const DeviceModel* device : {&overlapping, &blocking}) {
    StepClock clock({*device, {2, 2}, 1, DType::bf16, 64});
    const profile::WorkScope counted(&clock.work());
    const auto forward = clock.begin({Lane::compute, "forward", {}, true}, {});
    const auto operation = clock.begin({Lane::compute, "optimizer"}, {});  // has that name but is not an activity
    const auto first = clock.begin({Lane::gather, "one", gather}, {});
    const auto second = clock.begin({Lane::reduce, "two", gather}, {});  // after the first one, on the same links
    compute(0.25);
    const auto waiting = clock.begin({Lane::compute, "gather_exposed", {}, true}, {});
    clock.end(first, {});
    clock.end(waiting, {});
    clock.end(operation, {});
    compute(0.5);
    clock.end(second, {});
    clock.end(forward, {});
    const StepTime time = clock.take();
    CHECK(time.matmuls_ms == Approx(0.75).epsilon(kTolerance));
    CHECK(time.collectives_ms == Approx(2).epsilon(kTolerance));
    CHECK(time.breakdown_ms[static_cast<std::size_t>(Activity::gather_exposed)] ==
          Approx(device->overlaps ? 0.75 : 1).epsilon(kTolerance));
    CHECK(time.breakdown_ms[static_cast<std::size_t>(Activity::forward)] ==
          Approx(0.75 + (device->overlaps ? 0.5 : 1)).epsilon(kTolerance));
    CHECK(time.total_ms() == Approx(device->overlaps ? 2 : 2.75).epsilon(kTolerance));
    double parts = 0;
    for (const double ms : time.breakdown_ms) parts += ms;
    CHECK(parts == Approx(time.total_ms()).epsilon(kTolerance));
  }
}

TEST_CASE("estimate: work beside a collective is slower", "[estimate]") {
  const DeviceModel device = round_figures(true);
  DeviceUse use{device, {2, 2}, 1, DType::bf16, 64};
  use.loss_to_transfer = 0.6;
  StepClock clock(use);
  const profile::WorkScope counted(&clock.work());
  const auto gather = clock.begin({Lane::gather, "one", {10'000'000, 2, 1}}, {});  // 1 ms
  compute(0.3);  // all of it beside the collective, at 0.4 of its speed
  CHECK(clock.take().total_ms() == Approx(0.75).epsilon(kTolerance));
  compute(1);  // 0.1 of it beside the collective
  clock.end(gather, {});
  const StepTime time = clock.take();
  CHECK(time.matmuls_ms == Approx(1).epsilon(kTolerance));
  CHECK(time.contention_ms == Approx(0.15).epsilon(kTolerance));
  CHECK(time.exposed_ms() == 0);
}

TEST_CASE("estimate: operations have an overhead besides their traffic, which plans of transformers leave out",
          "[estimate]") {
  const DeviceModel device = round_figures(false);
  DeviceUse use{device, {1, 1}, 2, DType::f32, 64};
  use.operation_us = 3;
  StepClock clock(use);
  const profile::WorkScope counted(&clock.work());
  const auto forward = clock.begin({Lane::compute, "forward", {}, true}, {});
  for (int i = 0; i < 2; ++i) profile::count_operation(500'000);
  clock.end(forward, {});
  const StepTime time = clock.take();
  CHECK(time.traffic_ms == Approx(1).epsilon(kTolerance));  // of 2 MB, by two cores
  CHECK(time.overhead_ms == Approx(0.006).epsilon(kTolerance));
  CHECK(time.compute_ms() == Approx(1.006).epsilon(kTolerance));
  CHECK(time.breakdown_ms[static_cast<std::size_t>(Activity::forward)] == Approx(1.006).epsilon(kTolerance));
  CHECK(planned("gpt-tiny", 1, 16, "f32", {}).step_time.overhead_ms == 0);
}

TEST_CASE("estimate: measured rates are looked up by size, and interpolated", "[estimate]") {
  MeasuredRates rates;
  rates.gpu = "one";
  rates.matmuls = {{DType::bf16, 100, 100, 100, 2},
                   {DType::bf16, 100, 100, 100, 4},
                   {DType::bf16, 800, 100, 100, 8},
                   {DType::f32, 100, 100, 100, 50}};
  rates.attention = {{DType::bf16, 128, 64, false, 1e9, 1.15}, {DType::bf16, 128, 64, true, 1e9, 2.3}};
  rates.passes = {{"layer_norm.forward", DType::bf16, 1e6, 1},
                  {"gelu.forward", DType::bf16, 2e6, 1},
                  {"rms_norm.forward", DType::bf16, 1e9, 1},
                  {"adamw", DType::bf16, 5e6, 1}};
  rates.collectives = {{"all_gather", false, 2, 2e6, 9},
                       {"all_gather", true, 2, 2e6, 2},
                       {"all_gather", true, 2, 4e6, 3},
                       {"all_reduce", false, 2, 2e6, 7}};
  const RunRates run(rates, {DType::bf16, 128, 64, false, 1});
  CHECK(run.ms(100, 100, 100) == Approx(3).epsilon(kTolerance));  // the mean of both
  CHECK(run.ms(100, 100, 200) == Approx(6).epsilon(kTolerance));  // at the rate of the nearest
  CHECK(run.ms(1600, 100, 100) == Approx(16).epsilon(kTolerance));
  CHECK(*run.attention_ms(1e9, 2e9) == Approx(1.15 * (1.15 + 4.6)).epsilon(kTolerance));  // in a step longer than alone
  CHECK(*run.traffic_ms(4e6) == Approx(3).epsilon(kTolerance));  // two norms and one activation
  CHECK(*run.optimizer_ms(5e6) == Approx(1).epsilon(kTolerance));
  const auto gather = [&](Size sent, int ranks) { return *run.collective_ms(Lane::gather, {sent, ranks, 1}, 1000); };
  CHECK(gather(1'000'000, 2) == Approx(2).epsilon(kTolerance));  // in the window
  CHECK(gather(1'500'000, 2) == Approx(2.5).epsilon(kTolerance));
  CHECK(gather(500'000, 2) == Approx(1.5).epsilon(kTolerance));      // by the first two sizes
  CHECK(gather(4'000'000, 2) == Approx(6).epsilon(kTolerance));      // at the rate of the last
  CHECK(gather(1'000'000, 4) == Approx(2 + 2).epsilon(kTolerance));  // two hops more
  CHECK(*run.collective_ms(Lane::reduce, {2'000'000, 2, 1, 2}, 0) == Approx(7).epsilon(kTolerance));
  CHECK_FALSE(run.collective_ms(Lane::reduce, {2'000'000, 2, 1}, 0));  // no reduce-scatter was measured
  rates.collectives.push_back({"all_gather", true, 2, 2e6, 4});        // another file measured the same size
  const RunRates twice(rates, {DType::bf16, 128, 64, false, 1});
  CHECK(*twice.collective_ms(Lane::gather, {1'000'000, 2, 1}, 0) == Approx(3).epsilon(kTolerance));
  CHECK(*twice.collective_ms(Lane::gather, {500'000, 2, 1}, 0) == Approx(3).epsilon(kTolerance));
  CHECK(*twice.collective_ms(Lane::gather, {0, 2, 1}, 0) == Approx(3).epsilon(kTolerance));
  rates.gpu.clear(), rates.threads = 4;
  CHECK(RunRates(rates, {DType::bf16, 128, 64, false, 2}).ms(100, 100, 100) == Approx(6).epsilon(kTolerance));
}

// The counted FLOPs of a step equal flops_per_token, except for recomputation; attention's backward pass has five
// matmuls of T x T where the formula has four.
TEST_CASE("estimate: counted work is that of the formula", "[estimate]") {
  for (const nn::Preset& preset : nn::presets()) {
    const auto model = nn::make_transformer(preset.spec);
    const nn::TransformerSpec& spec = model->spec();
    const Size seq = spec.max_seq;
    const parallel::SeparateAllocationScope separate;
    Engine engine(*model, Group::meta(0, 1), {}, AdamW{}, {.micro_batch = 2, .seq = seq, .device = kMeta});
    const Tensor tokens = Tensor::empty({2, seq}, DType::i32, kMeta);
    profile::WorkCount work;
    const profile::WorkScope counted(&work);
    engine.step({tokens, tokens});
    const double attention_forward = work.attention_forward_flops;
    CHECK(work.attention_backward_flops == 2.5 * attention_forward);
    CHECK(attention_forward ==
          8 * static_cast<double>(spec.layers * spec.heads * spec.head_dim) * ops::visible_pairs(seq, spec.window));
    CHECK(work.matmul_flops + 3 * attention_forward ==
          Approx(model->flops_per_token(seq) * static_cast<double>(2 * seq)).epsilon(1e-12));
  }
}

TEST_CASE("estimate: frozen weights have no gradient, blocks before the first trained one no backward", "[estimate]") {
  for (const char* preset : {"gpt-tiny", "llama-tiny"}) {  // with a tied head, and with one of its own
    const auto model = nn::make_transformer(nn::preset(preset));
    const Size seq = model->spec().max_seq;
    OptimizerGroups optimizers = AdamW{};
    for (const std::size_t i : {0, 1, 3}) optimizers.frozen.push_back(model->units()[i].name + ".*");
    const parallel::SeparateAllocationScope separate;
    Engine engine(*model, Group::meta(0, 1), {}, optimizers, {.seq = seq, .device = kMeta});
    const Tensor tokens = Tensor::empty({1, seq}, DType::i32, kMeta);
    profile::WorkCount work;
    const profile::WorkScope counted(&work);
    engine.step({tokens, tokens});
    const double attention = work.attention_forward_flops, layers = static_cast<double>(model->spec().layers);
    CHECK(work.attention_backward_flops == Approx(2.5 * attention * (layers - 1) / layers));
    const auto is_trained = [&](const std::string& name) { return !optim::is_frozen(optimizers, name); };
    CHECK(work.matmul_flops + attention + 2 * attention * (layers - 1) / layers ==
          Approx(model->flops_per_token(seq, is_trained) * static_cast<double>(seq)).epsilon(1e-12));
  }
}

// The bytes that GPT-2 keeps and passes on in f32, each written once and read once; the passes over the logits; the
// optimizer.
TEST_CASE("estimate: counted traffic is that of the formula", "[estimate]") {
  constexpr double L = 4, B = 2, H = 4, T = 256, C = 128, F = 512, V = 256, M = B * T;
  const double norm = M * C + 2 * M;                                         // with mean and rstd
  const double forward = 2 * norm + 3 * M * C + (M * C + B * H * T) + M * C  // qkv, attention, projection
                         + 2 * M * F + M * C;                                // FFN before and after GELU, out
  const double backward = M * F + 3 * M * C + 3 * M * C;                     // FFN; qkv; two norms, attention
  const double ends = M * C + norm + 2 * M + M * C + M * V + M * C;          // embedding, last norm, head
  const double scalars = 2 * 128;                                            // bytes: the loss and its gradient
  const auto model = nn::make_transformer(nn::preset("gpt-tiny"));
  const parallel::SeparateAllocationScope separate;
  Engine engine(*model, Group::meta(0, 1), {}, AdamW{}, {.micro_batch = 2, .seq = 256, .device = kMeta});
  const Tensor tokens = Tensor::empty({2, 256}, DType::i32, kMeta);
  profile::WorkCount work;
  const profile::WorkScope counted(&work);
  engine.step({tokens, tokens});
  const double optimizer = 32 * static_cast<double>(engine.padded_parameters());  // 6 words of state, 2 of gradient
  CHECK(work.traffic_bytes == 2 * (4 * (L * (forward + backward) + ends) + scalars) + 3 * 4 * M * V + optimizer);
}

// The floors of bench/notes/gpu.md (matmuls and attention of a step one after another on an H200, and the bytes that
// must move), and the steps on two cores of bench/notes/README.md.
TEST_CASE("estimate: within 15 % of floors on GPUs and of steps on two cores", "[estimate]") {
  const PlanMachine h200{"h200", 0, 1}, cpu{"cpu", 0, 2};
  CHECK(planned("gpt2-124m", 64, 1024, "bf16", h200).step_time.total_ms() == Approx(93.5).epsilon(0.15));
  CHECK(planned("gpt2-1.5b", 16, 1024, "bf16", h200).step_time.total_ms() == Approx(262.5).epsilon(0.15));
  CHECK(planned("llama-1b", 4, 4096, "bf16", h200).step_time.total_ms() == Approx(224.9).epsilon(0.15));
  const StepTime sharded = planned("llama-8b", 2, 4096, "bf16", h200, 8, "zero3").step_time;
  CHECK(sharded.total_ms() - sharded.contention_ms == Approx(590).epsilon(0.15));  // a floor has no collectives
  CHECK(planned("gpt-tiny", 8, 256, "f32", cpu).step_time.total_ms() == Approx(40.2).epsilon(0.15));
  CHECK(planned("llama-tiny", 8, 256, "f32", cpu).step_time.total_ms() == Approx(39.4).epsilon(0.15));
  CHECK(planned("gpt-tiny", 8, 256, "bf16", cpu).step_time.total_ms() == Approx(20.6).epsilon(0.15));
  CHECK(planned("llama-tiny", 8, 256, "bf16", cpu).step_time.total_ms() == Approx(19.4).epsilon(0.15));
}

// Steps measured on H200 in November 2026.
TEST_CASE("estimate: within 12 % of measured steps on GPUs", "[estimate]") {
  const PlanMachine h200{"h200", 0, 1};
  CHECK(planned("gpt2-124m", 64, 1024, "bf16", h200).step_time.total_ms() == Approx(110.1).epsilon(0.12));
  CHECK(planned("gpt2-1.5b", 16, 1024, "bf16", h200).step_time.total_ms() == Approx(306.8).epsilon(0.12));
  CHECK(planned("llama-1b", 4, 4096, "bf16", h200).step_time.total_ms() == Approx(249.0).epsilon(0.12));
  CHECK(planned("llama-8b", 2, 4096, "bf16", h200, 2, "zero3").step_time.total_ms() == Approx(716.9).epsilon(0.12));
  CHECK(planned("gpt2-1.5b", 16, 1024, "bf16", h200, 4, "zero1").step_time.total_ms() == Approx(308.1).epsilon(0.12));
  CHECK(planned("llama-8b", 2, 4096, "bf16", h200, 8, "zero3").step_time.total_ms() == Approx(714.7).epsilon(0.12));
  CHECK(planned("llama-8b", 1, 8192, "fp8", h200, 8, "zero3").step_time.total_ms() == Approx(555.7).epsilon(0.12));
  // With NCCL's collectives.
  CHECK(planned("llama-8b", 2, 4096, "bf16", h200, 4, "zero3").step_time.total_ms() == Approx(733.6).epsilon(0.12));
}

TEST_CASE("estimate: MFU is of the peak in bf16, and null where there is none", "[estimate]") {
  const Plan plan = planned("gpt2-124m", 8, 1024, "bf16", {"h100", 0, 1}, 8, "zero1");
  CHECK(plan.mfu == Approx(plan.flops_per_token * plan.tokens_per_s / 8 / 989.5e12).epsilon(kTolerance));
  CHECK(planned("gpt2-124m", 8, 1024, "f32", {"h100", 0, 1}).mfu == -1);
  CHECK(planned("gpt-tiny", 8, 256, "bf16", {"cpu", 0, 1}).mfu == -1);
  CHECK_THROWS_AS(planned("gpt-tiny", 8, 256, "bf16", {"h100", 0, 2}), UsageError);
  CHECK_THROWS_AS(planned("gpt-tiny", 8, 256, "bf16", {"cpu", 0, 0}), UsageError);
}

TEST_CASE("estimate: what strategies and recomputation do to it", "[estimate]") {
  const PlanMachine nodes{"h100", 8, 1};
  const auto step = [&](int ranks, const std::string& strategy, const std::string& recompute = "none") {
    return planned("gpt2-1.5b", 8, 1024, "bf16", nodes, ranks, strategy, recompute).step_time;
  };
  const auto forward = [](const StepTime& time) {
    return time.breakdown_ms[static_cast<std::size_t>(Activity::forward)];
  };
  const auto again = [](const StepTime& time) {
    return time.breakdown_ms[static_cast<std::size_t>(Activity::recompute)];
  };
  const StepTime alone = step(1, "ddp");
  CHECK(alone.exposed_ms() == 0);
  CHECK(again(alone) == 0);
  const StepTime full = step(8, "zero3", "full");
  CHECK(again(full) > 0.5 * forward(full));  // the blocks without the head, whose gradient is made in forward
  CHECK(again(full) < 1.1 * forward(full));  // collectives slow both
  CHECK(step(8, "zero3").contention_ms > 0);
  CHECK(step(8, "zero3").exposed_ms() < 0.05 * step(8, "zero3").total_ms());  // hidden inside a node
  // Hybrid sharding over eight nodes: only gradients travel between them, each rank's through a card of its own.
  const Plan hybrid = make_plan(load_config("", {{"model.preset", "gpt2-1.5b"},
                                                 {"train.micro_batch", "8"},
                                                 {"train.dtype", "bf16"},
                                                 {"parallel.strategy", "zero3"},
                                                 {"parallel.shard_size", "8"}}),
                                64, nodes);
  const double shard_bytes = 4.0 * static_cast<double>(hybrid.parameters) / 8;
  const double transfer_ms = 2 * shard_bytes * 7 / 8 / 45e9 * 1e3;
  // Each transfer waits for the reduction inside a node on the same stream, and then nothing hides it.
  CHECK(hybrid.step_time.exposed_network_ms > transfer_ms);
  CHECK(hybrid.step_time.exposed_network_ms < hybrid.step_time.collectives_ms);
}

TEST_CASE("fit: the border is exact", "[estimate]") {
  const Config config = load_config("", {{"model.preset", "gpt-tiny"}, {"train.micro_batch", "4"}});
  const Size memory = Size{40} << 20;
  const Fit fit = fit_memory(config, 2, {}, memory);
  REQUIRE(fit.rows.size() == 12);
  for (const FitRow& row : fit.rows) {
    Config one = config;
    one.parallel.strategy = row.strategy, one.parallel.recompute = row.recompute;
    CHECK(make_plan(one, 2).peak_bytes == row.given->peak_bytes);
    REQUIRE(row.largest);
    one.train.micro_batch = row.largest->micro_batch;
    CHECK(make_plan(one, 2).peak_bytes == row.largest->peak_bytes);
    CHECK(row.largest->peak_bytes <= memory);
    one.train.micro_batch = row.largest->micro_batch + 1;
    CHECK(make_plan(one, 2).peak_bytes > memory);
    CHECK(row.largest->tokens_per_s <=
          (1 + kTolerance) * fit.rows.at(static_cast<std::size_t>(fit.best)).largest->tokens_per_s);
  }
  CHECK(fit_memory(config, 2, {}, Size{1} << 50).rows.at(0).largest->micro_batch == kMostFitSamples);
  const Fit none = fit_memory(config, 2, {}, 1 << 20);
  CHECK(none.best == -1);
  CHECK(none.best_given == -1);
  for (const FitRow& row : none.rows) {
    CHECK_FALSE(row.largest);
    CHECK(row.least->missing_bytes == row.least->peak_bytes - (1 << 20));
    CHECK(row.least->peak_bytes >= none.rows.at(static_cast<std::size_t>(none.nearest)).least->peak_bytes);
  }
}

TEST_CASE("fit: shard sizes are of whole nodes, and the micro-batch of each is the largest", "[estimate]") {
  CHECK(shard_sizes(8, 8) == std::vector{0});
  CHECK(shard_sizes(64, 8) == std::vector{8, 16, 32, 0});
  CHECK(shard_sizes(24, 8) == std::vector{8, 0});
  CHECK(shard_sizes(9, 8) == std::vector{0});
  const PlanMachine nodes{"h100", 2, 1};
  const Config config = load_config("", {{"model.preset", "gpt2-350m"}, {"train.dtype", "bf16"}});
  const Size memory = Size{20} << 30;
  for (const FitRow& row : fit_memory(config, 8, nodes, memory).rows) {
    if (row.recompute != Recompute::none) continue;
    Config one = config;
    one.parallel.strategy = row.strategy;
    double fastest = 0;
    for (const int size : row.strategy == Strategy::ddp ? std::vector{0} : shard_sizes(8, 2)) {
      one.parallel.shard_size = size;
      for (one.train.micro_batch = 1;; ++one.train.micro_batch) {
        const Plan plan = make_plan(one, 8, nodes);
        if (plan.peak_bytes + plan.outside_bytes > memory) break;
        fastest = std::max(fastest, plan.tokens_per_s);  // it grows with the micro-batch
      }
    }
    REQUIRE(row.largest);
    CHECK(row.largest->tokens_per_s == Approx(fastest).epsilon(kTolerance));
  }
}
