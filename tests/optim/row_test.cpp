// The requirements on an optimizer's row, and AdamW's row.
#include "optim/row.h"

#include "optim/groups.h"

#include <cmath>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/message_of.h"

using namespace lt;
using namespace lt::optim;
using lt_test::message_of;

namespace {

Optimizer whole() {
  return {.name = "sgd", .states = {"momentum"}, .betas = {0.9f}, .update = [](const UpdateRange&) {}};
}

std::string refusal(const Optimizer& row) {
  try {
    require_whole(row);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("optimizer: a row that is not whole is refused by its field", "[optim]") {
  CHECK(refusal(whole()) == "none");
  CHECK(refusal(AdamW{}) == "none");
  Optimizer row = whole();
  row.name = "";
  CHECK(refusal(row) == "optimizer \"\": name: expected one, found none");
  row = whole(), row.update = nullptr;
  CHECK(refusal(row) == "optimizer \"sgd\": update: expected a function, found none");
  CHECK_THROWS_AS(averaged(row, 0.9), UsageError);
  row = whole(), row.matrices.emplace();
  CHECK(refusal(row) == "optimizer \"sgd\": update: expected none with matrices, found one");
  row.update = nullptr;
  CHECK(refusal(row) == "optimizer \"sgd\": matrices: expected all functions, found some missing");
  CHECK(refusal(Muon{}) == "none");
  row = whole(), row.betas = {0, 0, 0, 0, 0};
  CHECK(refusal(row) == "optimizer \"sgd\": betas: expected at most 4, found 5");
  row = whole(), row.betas = {1.0f};
  CHECK(refusal(row) == "optimizer \"sgd\": betas: expected numbers in [0, 1), found 1.000000");
  for (const char* const name : {"", "a/b", "Momentum", "123456789012345678901234567890123"}) {
    row = whole(), row.states = {name};
    CHECK(refusal(row) == "optimizer \"sgd\": states: expected names of 1 to 32 of a to z, 0 to 9 and _, found \"" +
                              std::string(name) + "\"");
  }
  row = whole(), row.states = {"master"};
  CHECK(refusal(row) == "optimizer \"sgd\": states: expected names other than \"master\", which is the weights'");
  row = whole(), row.states = {{"m", DType::f16}};
  CHECK(refusal(row) == "optimizer \"sgd\": states: expected f32 or bf16, found m of f16");
  row = whole(), row.states = {"m", "v", "m"};
  CHECK(refusal(row) == "optimizer \"sgd\": states: expected each once, found m");
}

TEST_CASE("optimizer: numbers with which no update makes sense are refused", "[optim]") {
  const auto refusal_of = [](const auto& optimizer) {
    return message_of<UsageError>([&] { static_cast<void>(static_cast<Optimizer>(optimizer)); });
  };
  CHECK(refusal_of(AdamW{.eps = 0}) == "AdamW::eps: expected a number above 0, got 0");
  CHECK(refusal_of(AdamW{.eps = -1}) == "AdamW::eps: expected a number above 0, got -1");
  CHECK(refusal_of(AdamW{.weight_decay = -0.5f}) ==
        "AdamW::weight_decay: expected a finite number from 0 on, got -0.5");
  CHECK(refusal_of(Muon{.weight_decay = NAN}) == "Muon::weight_decay: expected a finite number from 0 on, got nan");
  CHECK(refusal_of(Muon{.momentum = 1}) == "Muon::momentum: expected a number in [0, 1), got 1.000000");
}

TEST_CASE("optimizer: AdamW's row", "[optim]") {
  const Optimizer row = AdamW{.lr = 1e-3f, .beta1 = 0.8f, .beta2 = 0.9f, .clip = 0.5f};
  CHECK(row.name == "adamw");
  CHECK(row.states == std::vector<StateKind>{"m", "v"});
  CHECK(row.betas == std::vector<float>{0.8f, 0.9f});
  CHECK(row.lr == 1e-3f);
  CHECK(row.clip == 0.5f);
  CHECK_FALSE(rounds_stochastically(row));
  const Optimizer narrow = AdamW{.state_dtype = DType::bf16};
  CHECK(narrow.states == std::vector<StateKind>{{"m", DType::bf16}, {"v", DType::bf16}});
  CHECK(rounds_stochastically(narrow));
}

TEST_CASE("optimizer: masters are f32, and without them weights are bf16", "[optim]") {
  const Optimizer bare = AdamW{.masters = false};
  CHECK(weight_dtype(OptimizerGroups(AdamW{}), DType::bf16) == DType::f32);
  CHECK(weight_dtype(OptimizerGroups(AdamW{}), DType::f16) == DType::f32);
  CHECK(weight_dtype(OptimizerGroups(bare), DType::bf16) == DType::bf16);
  CHECK(rounds_stochastically(bare));
  for (const DType compute : {DType::f32, DType::f16}) {
    CHECK_THROWS_WITH(weight_dtype(OptimizerGroups(bare), compute),
                      "masters: expected true, unless the computation is in bf16, got false with " +
                          std::string(dtype_name(compute)));
  }
}
