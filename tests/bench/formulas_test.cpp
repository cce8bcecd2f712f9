// Tests the formulas behind the rows of a benchmark: sizes, factors and limits.
#include <cmath>

#include "bench/comm.h"
#include "bench/floor.h"
#include "bench/kernel_case.h"
#include "bench/result.h"
#include "bench/scaling.h"
#include "bench/step_identity.h"
#include "bench/timing.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "record/short_text.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::bench;

TEST_CASE("bus_factor: what a rank must send of each byte", "[bench]") {
  CHECK(bus_factor(CollectiveOp::all_gather, 2) == 0.5);
  CHECK(bus_factor(CollectiveOp::reduce_scatter, 8) == 0.875);
  CHECK(bus_factor(CollectiveOp::all_reduce, 4) == 1.5);
  CHECK(bus_factor(CollectiveOp::broadcast, 4) == 1);
}

TEST_CASE("rank_counts: powers of two, and all", "[bench]") {
  CHECK(rank_counts(1) == std::vector<int>{1});
  CHECK(rank_counts(4) == std::vector<int>{1, 2, 4});
  CHECK(rank_counts(6) == std::vector<int>{1, 2, 4, 6});
}

TEST_CASE("step_identity: channels of a head where they do not follow from the width", "[bench]") {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  const auto shape = [](const Pairs& model) {
    const Json identity = step_identity(resolve(load_config("", model), 1), 1, "ddp");
    CHECK_FALSE(identity.contains("options"));
    return identity["shape"].get<std::string>();
  };
  const std::string rest = " ffn=512 vocab=256 micro_batch=8 accum=1 seq=256";
  CHECK(shape({{"model.heads", "4"}}) == "gpt2 layers=4 heads=4 kv_heads=4 width=128" + rest);
  CHECK(shape({{"model.head_dim", "32"}}) == shape({}));  // as it follows
  CHECK(shape({{"model.heads", "3"}, {"model.head_dim", "32"}}) ==
        "gpt2 layers=4 heads=3 kv_heads=3 head_dim=32 width=128" + rest);
  CHECK(shape({{"model.heads", "2"}, {"model.head_dim", "32"}}) ==
        "gpt2 layers=4 heads=2 kv_heads=2 head_dim=32 width=128" + rest);
}

TEST_CASE("short_duration: what integers do not count", "[bench]") {
  CHECK(recorder::short_duration(59.6) == "1m00s");
  CHECK(recorder::short_duration(36e9) == "10000000h00m");
  CHECK(recorder::short_duration(1e300) == "over 1000000000h");
  CHECK(recorder::short_duration(HUGE_VAL) == "over 1000000000h");
}

TEST_CASE("spread: minimum, median and maximum in any order", "[bench]") {
  CHECK(spread({3, 1, 2}) == Json{{"min", 1.0}, {"median", 2.0}, {"max", 3.0}});
  CHECK(spread({4, 1, 2, 3})["median"] == 2.5);
}

TEST_CASE("times: calls in blocks", "[bench]") {
  CHECK(cut_into_blocks({1, 2, 3, 4, 5}) == std::vector<std::vector<double>>{{1}, {2, 3}, {4, 5}});
  CHECK(times(cut_into_blocks({1, 2, 3, 4, 5})) ==
        Json{{"min", 1.0}, {"median", 3.0}, {"max", 5.0}, {"blocks", {1.0, 2.5, 4.5}}});
  CHECK(times(cut_into_blocks({7}))["blocks"] == Json{7.0});
}

TEST_CASE("time_calls: counted calls, fewer where they are slow", "[bench]") {
  int calls = 0;
  CHECK(time_calls(2, 7, 1e9, [&] { ++calls; }).size() == 7);
  CHECK(calls == 9);
  CHECK(time_calls(5, 7, -1, [&] { ++calls; }).size() == 3);
  CHECK(calls == 9 + 1 + 3);
  CHECK(time_calls(0, 1, -1, [&] { ++calls; }).size() == 1);
}

TEST_CASE("memory_rate: the best of arrays that are larger than half", "[bench]") {
  const Floor floor{1, 1, {{100, 9, 6}, {200, 4, 8}, {400, 5, 3}, {800, 1, 2}}};
  CHECK(floor.memory_rate(1) == 9);
  CHECK(floor.memory_rate(199) == 9);
  CHECK(floor.memory_rate(200) == 8);
  CHECK(floor.memory_rate(400) == 5);
  CHECK(floor.memory_rate(800) == 2);
  CHECK(floor.memory_rate(99999) == 2);
}

TEST_CASE("memory_rate: of copies, that of as many bytes, by their time", "[bench]") {
  const Floor floor{1, 1, {{100, 50, 50}, {200, 80, 80}, {400, 100, 100}}, true};  // 200 B in 4 s, 400 in 5, 800 in 8
  CHECK(floor.memory_rate(1) == 50);
  CHECK(floor.memory_rate(200) == 50);
  CHECK(floor.memory_rate(300) == Approx(300 / 4.5));
  CHECK(floor.memory_rate(400) == Approx(80));
  CHECK(floor.memory_rate(600) == Approx(600 / 6.5));
  CHECK(floor.memory_rate(800) == Approx(100));
  CHECK(floor.memory_rate(9999) == 100);
}

TEST_CASE("kernel cases: FLOPs and bytes of known shapes", "[bench]") {
  const nn::TransformerSpec spec = nn::with_defaults(
      {.family = "llama", .layers = 1, .heads = 4, .kv_heads = 2, .width = 64, .ffn = 96, .vocab = 100, .max_seq = 8});
  const KernelSizes sizes{kCpu, spec, 2, 8};  // M = 16, D = 16, packed rows of 128
  KernelCases cases;
  add_gemm_cases(cases, sizes), add_attention_cases(cases, sizes), add_row_cases(cases, sizes);
  add_token_cases(cases, sizes), add_flat_cases(cases, sizes);
  const struct {
    const char *name, *shape;
    DType dtype;
    Size flops, bytes;
  } expected[] = {
      {"gemm.qkv.forward", "M=16 N=128 K=64", DType::f32, 2 * 16 * 128 * 64, 4 * (16 * 64 + 64 * 128 + 16 * 128)},
      {"gemm.ffn_in.forward", "M=16 N=192 K=64", DType::bf16, 2 * 16 * 192 * 64, 2 * (16 * 64 + 64 * 192 + 16 * 192)},
      {"gemm.ffn_in.weight_gradient", "M=192 N=64 K=16", DType::bf16, 2 * 16 * 192 * 64,
       2 * (16 * 64 + 192 * 16) + 4 * 64 * 192},
      {"attention.forward", "B=2 T=8 H=4 G=2 D=16", DType::f32, 2 * 2 * 2 * 4 * 16 * (8 * 9 / 2),
       4 * (16 * 128 + 16 * 64 + 16 * 4)},
      {"attention.backward", "B=2 T=8 H=4 G=2 D=16", DType::bf16, 5 * 2 * 2 * 4 * 16 * (8 * 9 / 2),
       2 * (2 * 16 * 128 + 2 * 16 * 64) + 4 * 16 * 4},
      {"rms_norm.forward", "R=16 C=64", DType::f32, 4 * 16 * 64, 4 * (2 * 16 * 64 + 64 + 16)},
      {"swiglu.backward", "R=16 F=96", DType::bf16, 12 * 16 * 96, 2 * 5 * 16 * 96},
      {"cross_entropy.forward", "M=16 V=100", DType::f32, 4 * 16 * 100, 4 * (16 * 100 + 3 * 16)},
      {"cross_entropy.in_place", "M=16 V=100", DType::f32, 7 * 16 * 100, 4 * (2 * 16 * 100 + 3 * 16)},
      {"adamw", "N=30720", DType::bf16, 17 * 30720, 30 * 30720},
  };
  for (const auto& e : expected) {
    Size found = 0;
    for (const KernelCase& c : cases) {
      if (c.name != e.name || c.dtype != e.dtype) continue;
      ++found;
      CAPTURE(e.name);
      CHECK(c.shape == e.shape);
      CHECK(c.flops == e.flops);
      CHECK(c.bytes == e.bytes);
    }
    CHECK(found == (std::string(e.name).starts_with("attention") ? 3 : 1));
  }
}

// A chunk of the head has 2^17 logits on the CPU, but at least 256 rows.
TEST_CASE("kernel cases: head and loss are of the rows that a step gives them", "[bench]") {
  const struct {
    Size vocab, B;
    const char *head, *loss;
  } expected[] = {{256, 8, "M=512 N=256 K=64", "M=512 V=256"},
                  {256, 1, "M=256 N=256 K=64", "M=256 V=256"},
                  {1000, 8, "M=256 N=1000 K=64", "M=256 V=1000"}};
  for (const auto& e : expected) {
    const nn::TransformerSpec spec = nn::with_defaults(
        {.family = "gpt2", .layers = 1, .heads = 4, .width = 64, .ffn = 96, .vocab = e.vocab, .max_seq = 256});
    KernelCases cases;
    add_gemm_cases(cases, {kCpu, spec, e.B, 256}), add_token_cases(cases, {kCpu, spec, e.B, 256});
    CAPTURE(e.vocab, e.B);
    Size found = 0;
    for (const KernelCase& c : cases) {
      const bool head = c.name == "gemm.head.forward";
      if (!head && !c.name.starts_with("cross_entropy")) continue;
      ++found;
      CHECK(c.shape == (head ? e.head : e.loss));
    }
    CHECK(found == 8);
  }
}
