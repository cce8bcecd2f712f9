// Ranks whose steps would call different collectives: all get an error before the first step, and none hangs.
#include "comm/same_calls.h"

#include "libtrain/error.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"

using namespace lt;
using lt_test::world;

namespace {

template <class Body>
std::string refusal(Body&& body) {
  try {
    body();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error was thrown";
}

}  // namespace

TEST_CASE("same calls: the first one that differs is named on all ranks", "[parallel]") {
  const Group& group = world().group();
  const int last = group.size() - 1;
  std::vector<std::string> calls = {"a", "b", "c"};
  CHECK_NOTHROW(require_same_calls("step", calls, group));
  if (group.rank() == last) calls[1] = "x";
  CHECK(refusal([&] { require_same_calls("step", calls, group); }) ==
        "collective 2 of a step: expected that of rank 0 on all ranks, b, found on rank " + std::to_string(last) +
            " x");
  calls = {"a", "b"};
  if (group.rank() == last) calls.push_back("c");
  CHECK(refusal([&] { require_same_calls("step", calls, group); }) ==
        "collective 3 of a step: expected that of rank 0 on all ranks, no further collective, found on rank " +
            std::to_string(last) + " c");
}

TEST_CASE("engine: ranks that would reduce in different types are refused when the step is rehearsed", "[parallel]") {
  const nn::TransformerSpec spec = lt_test::small_spec("gpt-tiny");
  const auto model = nn::make_transformer(spec);
  StepOptions step;
  step.seq = 16;
  for (const Strategy& strategy : {Strategy::ddp, Strategy::zero3}) {
    ParallelOptions parallel;
    parallel.strategy = strategy;
    if (world().rank() > 0) parallel.reduce_dtype = DType::bf16;
    Engine engine(*model, world().group(), parallel, AdamW(), step);
    const std::string text = refusal([&] { engine.rehearse(lt_test::synthetic_batch(0, 1, step.seq, spec.vocab)); });
    CHECK(text.find("of a step: expected that of rank 0 on all ranks, reduce_scatter \"head gradients\" of ") !=
          std::string::npos);
    CHECK(text.find(", found on rank 1 reduce_scatter \"head gradients\" of ") != std::string::npos);
  }
}
