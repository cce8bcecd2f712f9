// One rank saves and loads. Values load with the same and with other partitions; mismatches are refused by name.
#include <cstring>

#include "checkpoints/fixture.h"
#include "checkpoints/format/files.h"
#include "checkpoints/format/manifest.h"
#include "checkpoints/format/verify.h"
#include "libtrain/error.h"
#include "libtrain/kernels/random.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::checkpoint;
using namespace lt_test;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("save and load: bit-equal tensors and state", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(larger_model(), 0, 1);
  const fs::path folder = save_alone(temp.path() / "run" / "checkpoints", 42, shards);
  CHECK(folder == temp.path() / "run" / "checkpoints" / "step-00000042");
  CHECK(names_in(folder) == std::vector<std::string>{"manifest.json", "rank-00000.h5"});
  CHECK(names_in(folder.parent_path()) == std::vector<std::string>{"LATEST", "step-00000042"});
  CHECK(read_text(folder.parent_path() / "LATEST") == "step-00000042\n");
  CHECK(problems_of(folder, true).empty());

  load(folder.string(), shards);
  CHECK(wrong_elements(shards) == 0);

  const RunState saved = state_at(42), read = read_state(folder.string());
  CHECK(read.step == 42);
  CHECK(read.samples == saved.samples);
  CHECK(read.seed == saved.seed);
  CHECK(read.data_tokens == saved.data_tokens);
  CHECK(read.loss_scale == saved.loss_scale);
  CHECK(read.config == saved.config);
  CHECK(read.config_hash == saved.config_hash);
  CHECK(read.model == saved.model);
  CHECK(read.tokenizer == saved.tokenizer);
  CHECK(read_world_size(folder.string()) == 1);
  const auto parameters = read_parameters(folder.string());
  REQUIRE(parameters.size() == larger_model().size());
  CHECK(parameters[2].name == "blocks.0.ffn.up.weight");
  CHECK(parameters[2].shape == Shape{1100, 1099});
}

TEST_CASE("load: any part of the parameters, whatever blocks it crosses", "[checkpoints]") {
  const TempFolder temp;
  const fs::path folder = save_alone(temp.path(), 1, shards_of(larger_model(), 0, 1));
  for (const int size : {2, 3, 7}) {
    for (int rank = 0; rank < size; ++rank) {
      const ShardMap part = shards_of(larger_model(), rank, size);
      load(folder.string(), part);
      CHECK(wrong_elements(part) == 0);
    }
  }
  // The block boundary of the large parameter lies at element 1048576.
  for (const auto& [begin, end] : {std::pair<Size, Size>{1048575, 1048577}, {0, 1048576}, {1048576, 1208900}, {5, 6}}) {
    ShardMap part{larger_model(), {}, {}};
    for (const char* const kind : {"m", "v"}) {  // converts v from bf16
      part.needed.push_back({"blocks.0.ffn.up.weight", kind, begin, end, Tensor::zeros({end - begin}, DType::f32)});
    }
    load(folder.string(), part);
    CHECK(wrong_elements(part) == 0);
  }
  const auto m = read_tensor(folder.string(), "head.norm.bias", "m");
  REQUIRE(m.size() == 8);
  CHECK(m[7] == value_of("head.norm.bias", "m", 7));
}

TEST_CASE("load: values of another dtype are converted, to a narrower one rounded to nearest", "[checkpoints]") {
  const TempFolder temp;
  constexpr Size kElements = 5'000'000;  // more than two blocks of either dtype
  std::vector<float> values(static_cast<std::size_t>(kElements));
  fill_normal(values.data(), 7, 0, kElements, 0.0f, 1.0f);
  const Tensor wide = Tensor::from(values, {kElements}), narrow = Tensor::empty({kElements}, DType::bf16);
  copy(narrow, wide);
  for (const Tensor& saved : {wide, narrow}) {
    const ShardMap shards{{{"w", {kElements}}}, {{"w", kMaster, 0, kElements, saved}}, {}, {{kMaster, saved.dtype()}}};
    const fs::path folder = save_alone(temp.path() / std::string(dtype_name(saved.dtype())), 1, shards);
    CHECK(problems_of(folder, true).empty());
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const auto& [begin, end] : {std::pair<Size, Size>{0, kElements}, {1'048'575, 4'194'305}, {3, 4}}) {
        const Tensor loaded = Tensor::zeros({end - begin}, dtype), expected = Tensor::empty({end - begin}, dtype);
        load(folder.string(), {{{"w", {kElements}}}, {}, {{"w", kMaster, begin, end, loaded}}});
        copy(expected, saved.narrow(0, begin, end - begin));
        INFO(dtype_name(saved.dtype()) << " as " << dtype_name(dtype) << " from " << begin);
        CHECK(std::memcmp(loaded.data(), expected.data(), static_cast<std::size_t>(loaded.bytes())) == 0);
      }
    }
  }
}

TEST_CASE("save: several ranges of one parameter by one rank", "[checkpoints]") {
  const TempFolder temp;
  ShardMap shards{{{"w", {10}}}, {}, {}, {kMaster, "m", "v"}};
  for (const char* const kind : {kMaster, "m", "v"}) {
    for (const auto& [begin, end] : {std::pair<Size, Size>{6, 10}, {0, 2}, {2, 6}}) {
      std::vector<float> values;
      for (Size i = begin; i < end; ++i) values.push_back(value_of("w", kind, i));
      shards.owned.push_back({"w", kind, begin, end, Tensor::from(values, {end - begin})});
    }
    shards.needed.push_back({"w", kind, 0, 10, Tensor::zeros({10}, DType::f32)});
  }
  const fs::path folder = save_alone(temp.path(), 3, shards);
  load(folder.string(), shards);
  CHECK(wrong_elements(shards) == 0);
}

TEST_CASE("save: values that are not contiguous, and the same bytes for the same state", "[checkpoints]") {
  const TempFolder temp;
  ShardMap shards{{{"w", {3}}}, {}, {}};
  const Tensor matrix = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  shards.owned.push_back({"w", kMaster, 0, 3, matrix.narrow(1, 1, 1).transposed(0, 1)});
  const fs::path first = save_alone(temp.path() / "a", 3, shards), second = save_alone(temp.path() / "b", 3, shards);
  CHECK(read_tensor(first.string(), "w") == std::vector<float>{2, 4, 6});
  for (const char* name : {"rank-00000.h5", "manifest.json"})
    CHECK((read_text(first / name) == read_text(second / name)));
}

TEST_CASE("load: another model is refused with parameter, expected and actual", "[checkpoints]") {
  const TempFolder temp;
  const fs::path folder = save_alone(temp.path(), 1, shards_of(small_model(), 0, 1));
  auto model = small_model();
  SECTION("shape") {
    model[0].shape = {5, 11};
    CHECK_THAT(load_error(folder, shards_of(model, 0, 1)),
               ContainsSubstring("parameter embedding.wte.weight: expected shape [5, 11], found [11, 5]"));
  }
  SECTION("missing") {
    model.push_back({"head.lm.weight", {2, 2}});
    CHECK_THAT(load_error(folder, shards_of(model, 0, 1)),
               ContainsSubstring("parameter head.lm.weight: expected shape [2, 2], found no such parameter"));
  }
  SECTION("too many") {
    model.pop_back();
    CHECK_THAT(load_error(folder, shards_of(model, 0, 1)),
               ContainsSubstring("parameter head.norm.bias: expected no such parameter in the model, found shape [8]"));
  }
  SECTION("read_tensor") {
    CHECK_THROWS_WITH(read_tensor(folder.string(), "nope"), ContainsSubstring("expected parameter nope"));
  }
}

TEST_CASE("load: optimizer state that was not saved is refused, the masters are read", "[checkpoints]") {
  const TempFolder temp;
  ShardMap shards = shards_of(small_model(), 0, 1);
  std::erase_if(shards.owned, [](const StateRange& range) { return range.kind != kMaster; });
  const fs::path folder = save_alone(temp.path(), 0, shards);
  CHECK_THAT(load_error(folder, shards), ContainsSubstring("found no"));
  std::erase_if(shards.needed, [](const StateRange& range) { return range.kind != kMaster; });
  forget(shards);
  load(folder.string(), shards);
  CHECK(wrong_elements(shards) == 0);
}

TEST_CASE("save: input that would make a checkpoint with holes leaves nothing behind", "[checkpoints]") {
  const TempFolder temp;
  ShardMap shards = shards_of(small_model(), 0, 1);
  RunState state = state_at(5);
  const auto error = [&]() -> std::string {
    try {
      save(temp.text(), shards, state, Group());
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  SECTION("a range missing") {
    shards.owned.erase(shards.owned.begin() + 1);
    CHECK_THAT(error(), ContainsSubstring("master/blocks.0.norm1.weight[0, 5) is in no file"));
  }
  SECTION("a range twice") {
    shards.owned.push_back(shards.owned.front());
    CHECK_THAT(error(), ContainsSubstring("master/embedding.wte.weight[0, 55) is in two files"));
  }
  SECTION("beyond the parameter") {
    shards.owned.front().end += 1;
    CHECK_THAT(error(), ContainsSubstring("expected a range of [0, 55)"));
  }
  SECTION("other values than the range") {
    shards.owned.front().begin += 1;
    CHECK_THAT(error(), ContainsSubstring("expected as many f32 values, found 55 f32"));
  }
  SECTION("unknown parameter") {
    shards.owned.front().parameter = "other";
    CHECK_THAT(error(), ContainsSubstring("expected a parameter of the model"));
  }
  SECTION("a name that HDF5 would split") {
    shards.parameters[0].name = "a/b";
    CHECK_THAT(error(), ContainsSubstring("expected a name without slashes"));
  }
  SECTION("model is no JSON") {
    state.model = "{";
    CHECK_THAT(error(), ContainsSubstring("parse error"));
  }
  SECTION("configuration is no UTF-8") {
    state.config = "\xff";
    CHECK_THAT(error(), ContainsSubstring("UTF-8"));
  }
  CHECK(names_in(temp.path()).empty());
}

TEST_CASE("save: onto a valid checkpoint of the same state leaves it; of another run is refused", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  const fs::path folder = save_alone(temp.path(), 5, shards);
  const auto written = fs::last_write_time(folder / "manifest.json");
  CHECK(save_alone(temp.path(), 5, shards) == folder);
  CHECK(fs::last_write_time(folder / "manifest.json") == written);
  CHECK(names_in(temp.path()) == std::vector<std::string>{"LATEST", "step-00000005"});

  RunState other = state_at(5);
  other.samples += 1;
  CHECK_THROWS_WITH(save(temp.text(), shards, other, Group()), ContainsSubstring("samples: expected 241, found 240"));
  other = state_at(5);
  other.config_hash = "another";
  CHECK_THROWS_WITH(save(temp.text(), shards, other, Group()),
                    ContainsSubstring("config_hash: expected another, found"));
  other = state_at(5);
  other.seed = 7;
  CHECK_THROWS_WITH(save(temp.text(), shards, other, Group()),
                    ContainsSubstring("seed: expected 7, found 18364758544493064720"));
  CHECK_THROWS_WITH(save_alone(temp.path(), 5, shards_of(small_model(), 0, 1, DType::f32)),
                    ContainsSubstring("dtype of v: expected f32, found bf16"));
  other = state_at(5);
  other.program = {{"best", "0.25"}};
  CHECK_THROWS_WITH(save(temp.text(), shards, other, Group()),
                    ContainsSubstring("program_state: best: expected 4 bytes, found none"));
  const ShardMap changed = shards_of(small_model(), 0, 1);
  changed.owned[0].values.data<float>()[0] += 1;
  CHECK_THROWS_WITH(save_alone(temp.path(), 5, changed),
                    ContainsSubstring("expected the values of this run, found others"));
  CHECK(names_in(temp.path()) == std::vector<std::string>{"LATEST", "step-00000005"});
  auto model = small_model();
  model[0].shape = {5, 11};
  CHECK_THROWS_WITH(
      save(temp.text(), shards_of(model, 0, 1), state_at(5), Group()),
      ContainsSubstring("parameter 0: expected embedding.wte.weight [5, 11], found embedding.wte.weight [11, 5]"));
  CHECK(problems_of(folder, true).empty());
}

TEST_CASE("save: a step has one state of the program", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  RunState state = state_at(5);
  state.program = {{"best", "0.25"}};
  const std::string folder = save(temp.text(), shards, state, Group());
  CHECK(read_state(folder).program == state.program);
  CHECK(save(temp.text(), shards, state, Group()) == folder);
  state.program["best"] = "0.24";
  CHECK_THROWS_WITH(save(temp.text(), shards, state, Group()),
                    ContainsSubstring("program_state: best: expected 4 bytes, found 4 other bytes"));
  state.program = {{"", ""}};
  CHECK_THROWS_AS(save(temp / "new", shards, state, Group()), UsageError);
  CHECK_FALSE(fs::exists(temp / "new"));
}

TEST_CASE("save: a damaged folder of that name is moved aside, byte for byte", "[checkpoints]") {
  const TempFolder temp;
  const ShardMap shards = shards_of(small_model(), 0, 1);
  for (int k = 1; k <= 2; ++k) {
    const fs::path folder = save_alone(temp.path(), 5, shards);
    std::string bytes = read_text(folder / "rank-00000.h5");
    bytes[bytes.size() / 2] ^= static_cast<char>(1 << k);
    write_text(folder / "rank-00000.h5", bytes);
    save_alone(temp.path(), 5, shards);
    CHECK(problems_of(folder, true).empty());
    CHECK(read_text(folder.string() + ".corrupt-" + std::to_string(k) + "/rank-00000.h5") == bytes);
  }
  CHECK_THROWS_WITH(save_alone(temp.path() / "LATEST" / "sub", 5, shards),
                    ContainsSubstring((temp.path() / "LATEST" / "sub").string()));
  write_text(temp.path() / "step-00000006", "a file in the way");
  CHECK(problems_of(save_alone(temp.path(), 6, shards), true).empty());
  CHECK(read_text(temp.path() / "step-00000006.corrupt-1") == "a file in the way");
}
