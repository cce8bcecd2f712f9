// Generation: several prompts and continuations at a time give the same text as each alone; windows, stop texts,
// memory.
#include <algorithm>
#include <cmath>

#include "generate/generated.h"
#include "libtrain/config/resolved.h"
#include "libtrain/error.h"
#include "libtrain/memory/memory.h"
#include "libtrain/plan/plan_sample.h"
#include "run/stop_text.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"

using namespace lt;
using namespace lt_test;
using Tokens = Generator::Tokens;

TEST_CASE("generate: greedy tokens are those of the whole text without a cache, beyond the window too", "[train]") {
  for (const char* const family : {"gpt2", "llama", "qwen3"}) {
    CAPTURE(family);
    const auto model = model_of(tiny(family));
    const std::vector<Tokens> prompts{{1, 2, 3}, {7}, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11, 12, 13}};
    const std::vector<Tokens> rows = generated(*model, prompts, {.tokens = 40, .temperature = 0});
    for (std::size_t i = 0; i < prompts.size(); ++i) CHECK(rows[i] == without_cache(*model, prompts[i], 40));
  }
}

TEST_CASE("generate: continuations differ, are functions of seed, prompt and number, and end on their own", "[train]") {
  const auto model = model_of(tiny("llama", 64));
  const SamplingOptions options{
      .tokens = 20, .temperature = 1.5, .top_p = 0.95, .min_p = 0.01, .repetition_penalty = 1.1, .continuations = 3};
  const std::vector<Tokens> prompts{{1, 2, 3}, {4, 5}};
  const std::vector<Tokens> rows = generated(*model, prompts, options);
  for (std::size_t i = 1; i < rows.size(); ++i) CHECK(rows[i] != rows[0]);
  CHECK(generated(*model, prompts, options) == rows);
  // The first prompt alone, and its first continuation alone.
  const std::vector<Tokens> first = generated(*model, {prompts[0]}, options);
  CHECK(first == std::vector<Tokens>(rows.begin(), rows.begin() + 3));
  SamplingOptions one = options;
  one.continuations = 1;
  CHECK(generated(*model, {prompts[0]}, one)[0] == rows[0]);
  Tokens single;
  generate(*model, prompts[0], one, [&](std::uint32_t token) { single.push_back(token); });
  CHECK(single == rows[0]);
  // A row that ends leaves the others as they are.
  std::vector<Tokens> some(rows.size());
  generate(*model, prompts, options, [&](Size row, std::uint32_t token) {
    Tokens& own = some[static_cast<std::size_t>(row)];
    own.push_back(token);
    return row != 1 || own.size() < 4;
  });
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(some[i] == (i == 1 ? Tokens(rows[i].begin(), rows[i].begin() + 4) : rows[i]));
  }
}

TEST_CASE("generate: a text may go on after more tokens were added to it", "[train]") {
  const auto model = model_of(tiny("llama", 64));
  const SamplingOptions greedy{.temperature = 0};
  Generator turns(*model, 1, greedy);
  turns.append(0, {3, 1, 4});
  Tokens text{3, 1, 4};
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < 5; ++i) {
      const Tokens expected = without_cache(*model, text, 1);
      text.push_back(turns.step()[0]);
      CHECK(text.back() == expected[0]);
    }
    turns.append(0, {1, 5, 9}), text.insert(text.end(), {1, 5, 9});
  }
}

TEST_CASE("generate: a text whose logits are not numbers is refused, and none is once it has ended", "[train]") {
  const auto model = model_of(tiny("llama"));
  const Tensor table = model->all_parameters().front().parameter->tensor().detach();
  copy(table.narrow(0, 5, 1), ops::scale(table.narrow(0, 5, 1), std::nan("")));  // of token 5
  Generator rows(*model, 2, {.temperature = 0});
  rows.append(0, {1, 2, 3}), rows.append(1, {4, 3});
  rows.step();
  rows.append(1, {5});
  CHECK(message_of<NonFiniteError>([&] { rows.step(); }) ==
        "sample: row 1: expected a finite logit after 4 tokens, found none");
  Generator ended(*model, 2, {.temperature = 0});
  ended.append(0, {1, 2, 3}), ended.append(1, {4, 3});
  ended.step();
  ended.append(1, {5});
  ended.end(1);
  CHECK_NOTHROW(ended.step());
}

TEST_CASE("generate: the penalty makes every token of prompt and output less likely", "[train]") {
  const auto model = model_of(tiny("llama", 64));
  const Tokens free = generated(*model, {{1, 2}}, {.tokens = 40, .temperature = 0})[0];
  const Tokens once = generated(*model, {{1, 2}}, {.tokens = 40, .temperature = 0, .repetition_penalty = 1e5})[0];
  const auto distinct = [](Tokens tokens) {
    std::sort(tokens.begin(), tokens.end());
    return std::unique(tokens.begin(), tokens.end()) - tokens.begin();
  };
  CHECK(distinct(free) < 40);
  CHECK(distinct(once) > distinct(free));
}

TEST_CASE("generate: a token outside the vocabulary is refused", "[train]") {
  const auto model = model_of(tiny("llama"));
  Generator generator(*model, 1, {.repetition_penalty = 1.1});
  CHECK_THROWS_WITH(generator.append(0, {1, 61}), "tokens: expected ids from 0 to 60, got 61");
  generator.append(0, {1, 60});
  CHECK(generator.step().at(0) < 61);
}

TEST_CASE("generate: options out of range and rows that are not there are refused", "[train]") {
  const auto model = model_of(tiny("llama"));
  const auto refusal_of = [&](const SamplingOptions& options) {
    return message_of<UsageError>([&] { generated(*model, {{1}}, options); });
  };
  CHECK(refusal_of({.tokens = -1}) == "tokens: expected at least 0, got -1");
  CHECK(refusal_of({.temperature = -1}) == "temperature: expected a number from 0 on, got -1");
  CHECK(refusal_of({.temperature = std::nan("")}) == "temperature: expected a number from 0 on, got nan");
  CHECK(refusal_of({.top_k = -2}) == "top_k: expected at least 0, got -2");
  CHECK(refusal_of({.top_p = 1.5}) == "top_p: expected a number from 0 to 1, got 1.5");
  CHECK(refusal_of({.min_p = -0.1}) == "min_p: expected a number from 0 to 1, got -0.1");
  CHECK(refusal_of({.repetition_penalty = 0}) == "repetition_penalty: expected a number above 0, got 0");
  CHECK(refusal_of({.continuations = 0}) == "continuations: expected at least 1, got 0");
  CHECK_THROWS_WITH(Generator(*model, 0, {}), "rows: expected at least 1, got 0");
  Generator generator(*model, 2, {});
  CHECK_THROWS_WITH(generator.append(2, {1}), "row: expected a number from 0 to 1, got 2");
  CHECK_THROWS_WITH(generator.end(-1), "row: expected a number from 0 to 1, got -1");
}

TEST_CASE("generate: the planned peak is that of the run", "[train]") {
  for (const char* const preset : {"gpt-tiny", "llama-tiny"}) {
    for (const char* const dtype : {"f32", "bf16"}) {
      for (const Size rows : {1, 3}) {
        CAPTURE(preset, dtype, rows);
        const Config config = load_config("", {{"model.preset", preset}, {"train.dtype", dtype}, {"train.seq", "77"}});
        const SamplePlan plan = plan_sample(config, rows);
        const Size before = memory_live(kCpu).total;
        reset_memory_peak(kCpu);
        const auto model = nn::make_transformer(*resolve(config, 1).transformer);
        model->materialize(kCpu, resolve(config, 1).step.dtype, 5);
        generated(*model, std::vector<Tokens>(static_cast<std::size_t>(rows), Tokens(77)), {.tokens = 5});
        CHECK(memory_peak(kCpu).total - before == plan.peak_bytes);
        const nn::TransformerSpec& spec = model->spec();
        CHECK(plan.cache_bytes == 2 * spec.layers * rows * spec.max_seq * spec.kv_heads * spec.head_dim *
                                      dtype_bytes(resolve(config, 1).step.dtype));
      }
    }
  }
}

TEST_CASE("stop texts: the text ends before the first, and no part of one is shown", "[train]") {
  const auto shown = [](const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
    run::StopText stop(stops);
    std::string text;
    for (const std::string& piece : pieces) {
      text += stop.push(piece) + "|";
      if (stop.has_stopped()) return text + "stop";
    }
    return text + stop.finish();
  };
  CHECK(shown({}, {"a", "b"}) == "a|b|");
  CHECK(shown({"\n\n"}, {"a\n", "b", "\n", "\nc"}) == "a|\nb|||stop");
  CHECK(shown({"END", "ND!"}, {"xE", "N", "D!"}) == "x|||stop");
  CHECK(shown({"aab"}, {"a", "a", "a", "b"}) == "||a||stop");
  CHECK(shown({"ab", "b"}, {"xab"}) == "x|stop");
  CHECK(shown({"abc"}, {"ab"}) == "|ab");
}
