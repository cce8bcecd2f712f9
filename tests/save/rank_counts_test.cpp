// Checkpoints of four ranks continue on two, those of two on two and on four, under another strategy, in each dtype and
// with each optimizer. A run that was resumed twice has the bits of one that never stopped.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/save/engine_checkpoint.h"
#include "parallel/synthetic.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt_test;

namespace {

constexpr Size kGlobalBatch = 4;

struct Case {
  std::string name;
  DType dtype;
  OptimizerGroups optimizer;
  bool fp8 = false;
};

std::vector<Case> cases() {
  const AdamW adamw{.lr = 1e-2f}, narrow{.lr = 1e-2f, .state_dtype = DType::bf16, .masters = false};
  const OptimizerGroups muon({{"*", Muon{}}, {"*", adamw}}, 1e-2, 1);
  std::vector<Case> cases;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const std::string name(dtype_name(dtype));
    cases.push_back({name + " AdamW", dtype, adamw});
    cases.push_back({name + " AdamW with an average", dtype, averaged(adamw, 0.9)});
    cases.push_back({name + " Muon", dtype, muon});
  }
  cases.push_back({"bf16 AdamW without masters", DType::bf16, averaged(narrow, 0.9)});
  cases.push_back({"fp8 AdamW", DType::bf16, adamw, true});
  return cases;
}

// A model and its engine on the ranks of a group.
struct Run {
  Run(const Group& group_, const Strategy& strategy, const Case& c)
      : group(group_),
        model(nn::make_transformer(small_spec("llama-tiny"))),
        engine(*model, group, {.strategy = strategy, .deterministic = Determinism::on}, c.optimizer,
               {.micro_batch = kGlobalBatch / group.size(), .seq = 16, .dtype = c.dtype, .fp8 = c.fp8}) {}

  std::vector<float> steps(int count) {
    std::vector<float> numbers;
    for (int i = 0; i < count; ++i) {
      const StepResult result = engine.step(rows_of_step(engine.batch_shape(), engine.steps_done(), 256));
      numbers.push_back(result.loss()), numbers.push_back(result.norm());
    }
    return numbers;
  }
  std::uint64_t state() const { return state_checksum(engine, group); }
  void load_from(const std::string& folder) { CHECK(load(engine, folder, group).has_value()); }

  Group group;
  std::unique_ptr<nn::Transformer> model;
  Engine engine;
};

}  // namespace

TEST_CASE("save and load: 4 to 2 ranks, 2 to 2 and 2 to 4, in each dtype and with each optimizer", "[train]") {
  const Group& four = world().group();
  const Group two = four.split(four.rank() / 2, "pair");
  const bool saves_pair = four.rank() < 2;  // both pairs compute the same
  for (const Case& c : cases()) {
    INFO(c.name);
    const TempFolder temp;
    const std::string folder = four.broadcast_bytes(temp.text(), 0);
    Run first(four, Strategy::zero3, c);
    first.steps(2);
    const std::uint64_t state_of_four = first.state();
    save(first.engine, folder + "/four", four);

    Run second(two, Strategy::zero1, c), unbroken(two, Strategy::zero1, c);
    for (Run* run : {&second, &unbroken}) {
      run->load_from(folder + "/four");
      CHECK(run->engine.steps_done() == 2);
      CHECK(run->state() == state_of_four);
    }
    const std::vector<float> expected = unbroken.steps(3);
    std::vector<float> found = second.steps(1);
    if (saves_pair) save(second.engine, folder + "/two", two);
    four.barrier();

    Run third(two, Strategy::zero3, c);
    third.load_from(folder + "/two");
    CHECK(third.state() == second.state());
    for (const float number : third.steps(1)) found.push_back(number);
    if (saves_pair) save(third.engine, folder + "/again", two);
    four.barrier();

    Run fourth(two, Strategy::zero2, c), last(four, Strategy::ddp, c);
    fourth.load_from(folder + "/again");
    for (const float number : fourth.steps(1)) found.push_back(number);
    CHECK(found == expected);
    CHECK(fourth.state() == unbroken.state());
    last.load_from(folder + "/again");
    CHECK(last.engine.steps_done() == 4);
    CHECK(last.state() == third.state());
    CHECK(last.engine.loss_scale().scale == third.engine.loss_scale().scale);
    const std::vector<float> on_four = last.steps(1);
    // Sums over other ranks, in narrow dtypes.
    CHECK(on_four[0] == Approx(expected[4]).epsilon(c.dtype == DType::f32 ? 1e-5 : 1e-2));
    four.barrier();  // rank 0 removes the folder
  }
}
