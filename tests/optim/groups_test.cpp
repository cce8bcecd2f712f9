// Groups of parameters: patterns, precedence, and lists that an engine refuses.
#include "optim/groups.h"

#include <cmath>
#include <string>
#include <vector>

#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::optim;

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

TEST_CASE("groups: a star stands for any text, and the whole name counts", "[optim]") {
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

TEST_CASE("groups: the first that matches counts", "[optim]") {
  const OptimizerGroups groups = with({{"blocks.*.norm*", AdamW{}, 2}, {"blocks.*", AdamW{}}, {"*", AdamW{}}});
  CHECK(group_of(groups, {"blocks.0.norm1.weight"}) == 1 - 1);
  CHECK(group_of(groups, {"blocks.10.ffn.up.weight"}) == 1);
  CHECK(group_of(groups, {"embedding.wte.weight"}) == 2);
  CHECK(refusal_of(groups) == "none");
}

TEST_CASE("groups: what no engine takes is refused", "[optim]") {
  CHECK(refusal_of(AdamW{}) == "none");
  CHECK(refusal_of(with({})) == "groups: expected 1 to 16, got 0");
  CHECK(refusal_of(AdamW{.lr = -1}) == "lr: expected a finite number from 0 on, got -1");
  CHECK(refusal_of(AdamW{.clip = NAN}) == "clip: expected a finite number from 0 on, got nan");
  CHECK(refusal_of(with({{"*", AdamW{}, -2}})) ==
        "groups: expected an lr_scale that is a finite number from 0 on, got -2");
  CHECK(refusal_of(with(std::vector<OptimizerGroup>(17, {"*", AdamW{}}))) == "groups: expected 1 to 16, got 17");
  // The engine computes in f32.
  for (const auto& [value, rounded] : {std::pair{1e39, "infinity, got 1e+39"}, {1e-50, "0, got 1e-50"}}) {
    const std::string expected = std::string(" that f32 does not round to ") + rounded;
    OptimizerGroups groups = AdamW{};
    groups.lr = value;
    CHECK(refusal_of(groups) == "lr: expected a number" + expected);
    groups = AdamW{}, groups.clip = value;
    CHECK(refusal_of(groups) == "clip: expected a number" + expected);
    CHECK(refusal_of(with({{"*", AdamW{}, value}})) == "groups: expected an lr_scale that is a number" + expected);
  }
  CHECK(refusal_of(with({{"*.bias", AdamW{}}, {"*", AdamW{}}})) ==
        "groups: expected parameters that match \"*.bias\", got none");
  CHECK(refusal_of(with({{"blocks.*", AdamW{}}})) == "groups: expected one for embedding.wte.weight, got none");
  CHECK(refusal_of(with({{"blocks.*", AdamW{}}, {"blocks.*.norm*", AdamW{}}, {"*", AdamW{}}})) ==
        "groups: expected parameters that match \"blocks.*.norm*\" and are neither frozen nor in an earlier group, got "
        "none");
  CHECK(refusal_of(with({{"blocks.*", AdamW{}}, {"embedding*", AdamW{}}, {"*", AdamW{}}})) ==
        "none");  // "*" takes the remaining parameters
  CHECK(refusal_of(with({{"*", AdamW{}}, {"*", AdamW{}}, {"*", AdamW{}}})) ==
        "groups: expected parameters that match \"*\" and are neither frozen nor in an earlier group, got none");
  std::vector<StateKind> many;
  for (int i = 0; i < 32; ++i) many.emplace_back("s" + std::to_string(i));
  CHECK(refusal_of(Optimizer{.name = "many", .states = many, .update = [](const UpdateRange&) {}}) ==
        "groups: expected at most 31 kinds of state in all, got 32");
  OptimizerGroups frozen = AdamW{};
  frozen.frozen = {"blocks.*"};
  CHECK(refusal_of(frozen) == "none");
  CHECK(state_kinds(frozen, kParameters)[0].partial);
  frozen.frozen = {"head*"};
  CHECK(refusal_of(frozen) == "frozen: expected parameters that match \"head*\", got none");
  frozen.frozen = {"*"};
  CHECK(refusal_of(frozen) == "frozen: expected a parameter that is not frozen, got none");
  OptimizerGroups some = AdamW{};
  some.trained = {"blocks.*"};
  CHECK(refusal_of(some) == "none");
  CHECK(state_kinds(some, kParameters)[0].partial);
  for (const GroupMember& parameter : kParameters) {
    CHECK(is_frozen(some, parameter.name) == !parameter.name.starts_with("blocks."));
  }
  some.frozen = {"blocks.*"};
  CHECK(refusal_of(some) == "frozen: expected a parameter that is not frozen, got none");
  some.frozen = {}, some.trained = {"*.lora_A"};
  CHECK(refusal_of(some) == "trained: expected parameters that match \"*.lora_A\", got none");
  CHECK(refusal_of(with({{"blocks.*", AdamW{.masters = false}}, {"*", AdamW{}}})) ==
        "groups: expected masters in all of them or in none, got both");
  CHECK(refusal_of(with({{"blocks.*", AdamW{.state_dtype = DType::bf16}}, {"*", AdamW{}}})) ==
        "groups: expected one dtype of m, got two");
}

TEST_CASE("groups: a kind that not all of them keep is partial", "[optim]") {
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

TEST_CASE("groups: an optimizer of matrices leaves all others to the next group that matches", "[optim]") {
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
        "groups: expected parameters that match \"*.up.*\" and are neither frozen nor in an earlier group, got none");
  CHECK(refusal_of(with({{"*", Muon{}}})) == "groups: expected one for embedding.wte.weight, got none");
  CHECK(refusal_of(with({{"blocks.*.norm*", Muon{}}, {"*", AdamW{}}})) ==
        "groups: expected matrices of blocks that match \"blocks.*.norm*\" and are neither frozen nor in an earlier "
        "group, "
        "got none");
  OptimizerGroups frozen = with({{"*", Muon{}}, {"*", AdamW{}}});
  frozen.frozen = {"blocks.*"};
  CHECK(refusal_of(frozen) == "none");
}
