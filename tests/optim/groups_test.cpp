// Groups of parameters: patterns, precedence, and lists that an engine refuses.
#include "optim/groups.h"

#include <cmath>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;

namespace {

const std::vector<GroupMember> kParameters = {
    {"embedding.wte.weight"}, {"blocks.0.norm1.weight"}, {"blocks.10.ffn.up.weight", true}};

std::string refusal_of(const OptimizerGroups& groups) {
  try {
    require_whole(groups, kParameters);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

OptimizerGroups with(std::vector<OptimizerGroup> groups) { return {std::move(groups), 1e-3, 1.0}; }

}  // namespace

TEST_CASE("optim.groups: a star stands for any text, and the whole name counts", "[optim]") {
  for (const auto& [pattern, name] : {std::pair<const char*, const char*>{"*", "a.b"},
                                      {"*", ""},
                                      {"a.b", "a.b"},
                                      {"a*", "a"},
                                      {"*b", "a.b"},
                                      {"blocks.*.norm*", "blocks.10.norm1.weight"},
                                      {"*norm*norm*", "norm.norm"},
                                      {"a**b", "ab"},
                                      {"*ab", "aab"}}) {
    INFO(pattern << " " << name);
    CHECK(matches(pattern, name));
  }
  for (const auto& [pattern, name] : {std::pair<const char*, const char*>{"", "a"},
                                      {"a", "ab"},
                                      {"b", "ab"},
                                      {"a*c", "abcd"},
                                      {"*norm*norm*", "norm.nor"},
                                      {"a?", "ab"},
                                      {"blocks.*.norm", "blocks.0.norm1"}}) {
    INFO(pattern << " " << name);
    CHECK_FALSE(matches(pattern, name));
  }
}

TEST_CASE("optim.groups: the first that matches counts", "[optim]") {
  const OptimizerGroups groups = with({{"blocks.*.norm*", AdamW{}, 2}, {"blocks.*", AdamW{}}, {"*", AdamW{}}});
  CHECK(group_of(groups, {"blocks.0.norm1.weight"}) == 1 - 1);
  CHECK(group_of(groups, {"blocks.10.ffn.up.weight"}) == 1);
  CHECK(group_of(groups, {"embedding.wte.weight"}) == 2);
  CHECK(refusal_of(groups) == "none");
}

TEST_CASE("optim.groups: what no engine takes is refused", "[optim]") {
  CHECK(refusal_of(AdamW{}) == "none");
  CHECK(refusal_of(with({})) == "optim.groups: expected 1 to 16, found 0");
  CHECK(refusal_of(AdamW{.lr = -1}) == "optim.lr: expected a finite number from 0 on, got -1");
  CHECK(refusal_of(AdamW{.clip = NAN}) == "optim.clip: expected a finite number from 0 on, got nan");
  CHECK(refusal_of(with({{"*", AdamW{}, -2}})) == "optim.groups: lr_scale: expected a finite number from 0 on, got -2");
  CHECK(refusal_of(with(std::vector<OptimizerGroup>(17, {"*", AdamW{}}))) ==
        "optim.groups: expected 1 to 16, found 17");
  // The engine computes in f32.
  for (const auto& [value, rounded] : {std::pair{1e39, "infinity, got 1e+39"}, {1e-50, "0, got 1e-50"}}) {
    const std::string expected = std::string(": expected a number that f32 does not round to ") + rounded;
    OptimizerGroups groups = AdamW{};
    groups.lr = value;
    CHECK(refusal_of(groups) == "optim.lr" + expected);
    groups = AdamW{}, groups.clip = value;
    CHECK(refusal_of(groups) == "optim.clip" + expected);
    CHECK(refusal_of(with({{"*", AdamW{}, value}})) == "optim.groups: lr_scale" + expected);
  }
  CHECK(refusal_of(with({{"*.bias", AdamW{}}, {"*", AdamW{}}})) ==
        "optim.groups: \"*.bias\": expected parameters of that name, found none");
  CHECK(refusal_of(with({{"blocks.*", AdamW{}}})) == "optim.groups: expected one for embedding.wte.weight, found none");
  CHECK(refusal_of(with({{"blocks.*", AdamW{}}, {"blocks.*.norm*", AdamW{}}, {"*", AdamW{}}})) ==
        "optim.groups: \"blocks.*.norm*\": expected parameters that are neither frozen nor in an earlier group, found "
        "none");
  CHECK(refusal_of(with({{"blocks.*", AdamW{}}, {"embedding*", AdamW{}}, {"*", AdamW{}}})) ==
        "none");  // "*" takes the remaining parameters
  CHECK(refusal_of(with({{"*", AdamW{}}, {"*", AdamW{}}, {"*", AdamW{}}})) ==
        "optim.groups: \"*\": expected parameters that are neither frozen nor in an earlier group, found none");
  std::vector<StateKind> many;
  for (int i = 0; i < 32; ++i) many.emplace_back("s" + std::to_string(i));
  CHECK(refusal_of(Optimizer{.name = "many", .states = many, .update = [](const UpdateRange&) {}}) ==
        "optim.groups: expected at most 31 kinds of state in all, found 32");
  OptimizerGroups frozen = AdamW{};
  frozen.frozen = {"blocks.*"};
  CHECK(refusal_of(frozen) == "none");
  CHECK(state_kinds(frozen, kParameters)[0].partial);
  frozen.frozen = {"head*"};
  CHECK(refusal_of(frozen) == "model.freeze: \"head*\": expected parameters of that name, found none");
  frozen.frozen = {"*"};
  CHECK(refusal_of(frozen) == "model.freeze: expected a parameter that is not frozen, found none");
  OptimizerGroups some = AdamW{};
  some.trained = {"blocks.*"};
  CHECK(refusal_of(some) == "none");
  CHECK(state_kinds(some, kParameters)[0].partial);
  for (const GroupMember& parameter : kParameters) {
    CHECK(is_frozen(some, parameter.name) == !parameter.name.starts_with("blocks."));
  }
  some.frozen = {"blocks.*"};
  CHECK(refusal_of(some) == "model.freeze: expected a parameter that is not frozen, found none");
  some.frozen = {}, some.trained = {"*.lora_A"};
  CHECK(refusal_of(some) == "trained parameters: \"*.lora_A\": expected parameters of that name, found none");
  CHECK(refusal_of(with({{"blocks.*", AdamW{.masters = false}}, {"*", AdamW{}}})) ==
        "optim.groups: expected masters in all of them or in none, found both");
  CHECK(refusal_of(with({{"blocks.*", AdamW{.state_dtype = DType::bf16}}, {"*", AdamW{}}})) ==
        "optim.groups: m: expected one dtype, found two");
}

TEST_CASE("optim.groups: a kind that not all of them keep is partial", "[optim]") {
  Optimizer momentum{.name = "sgd", .states = {"momentum"}, .update = [](const UpdateRange&) {}};
  const auto partial = [](const char* name) {
    StateKind kind(name);
    kind.partial = true;
    return kind;
  };
  CHECK(state_kinds(AdamW{}, kParameters) == std::vector<StateKind>{"m", "v"});
  CHECK(state_kinds(with({{"blocks.*", momentum}, {"*", AdamW{}}}), kParameters) ==
        std::vector<StateKind>{partial("momentum"), partial("m"), partial("v")});
  CHECK(state_kinds(with({{"*", momentum}, {"*", AdamW{}}}), kParameters) == std::vector<StateKind>{"momentum"});
}

TEST_CASE("optim.groups: an optimizer of matrices leaves all others to the next group that matches", "[optim]") {
  const OptimizerGroups groups = with({{"blocks.*", Muon{}}, {"*", AdamW{}}});
  CHECK(refusal_of(groups) == "none");
  CHECK(group_of(groups, kParameters[0]) == 1);
  CHECK(group_of(groups, kParameters[1]) == 1);
  CHECK(group_of(groups, kParameters[2]) == 0);
  CHECK(refusal_of(with({{"*", Muon{}}, {"*", AdamW{}}})) == "none");
  CHECK(refusal_of(with({{"*.up.weight", Muon{}}, {"*.up.weight", AdamW{}}, {"*", AdamW{}}})) ==
        "none");  // the second group takes the parameters that the first leaves
  CHECK(refusal_of(with({{"*norm*", Muon{}}, {"*norm*", AdamW{}}, {"*", AdamW{}}})) == "none");
  CHECK(refusal_of(with({{"blocks.*", AdamW{}}, {"*.up.*", Muon{}}, {"*.up.*", AdamW{}}, {"*", AdamW{}}})) ==
        "optim.groups: \"*.up.*\": expected parameters that are neither frozen nor in an earlier group, found none");
  CHECK(refusal_of(with({{"*", Muon{}}})) == "optim.groups: expected one for embedding.wte.weight, found none");
  CHECK(
      refusal_of(with({{"blocks.*.norm*", Muon{}}, {"*", AdamW{}}})) ==
      "optim.groups: \"blocks.*.norm*\": expected matrices of blocks that are neither frozen nor in an earlier group, "
      "found none");
  OptimizerGroups frozen = with({{"*", Muon{}}, {"*", AdamW{}}});
  frozen.frozen = {"blocks.*"};
  CHECK(refusal_of(frozen) == "none");
}
