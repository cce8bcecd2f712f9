// What a program that links the library saves can be sampled: with the tokenizer that it gave, or without one.
#include <filesystem>

#include "libtrain/checkpoint.h"
#include "libtrain/generate.h"
#include "libtrain/libtrain.h"
#include "test_main/catch.h"

using namespace lt;

TEST_CASE("save: the tokenizer's text is kept, and read with the model", "[train]") {
  std::string folder = (std::filesystem::temp_directory_path() / "lt-engine-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  nn::Gpt2 model({.layers = 1, .heads = 1, .width = 8, .vocab = 256, .max_seq = 8});
  Engine engine(model, Group(), {}, AdamW{}, {.micro_batch = 1, .seq = 8});
  const std::string tokenizer = make_tokenizer("byte")->to_json();

  CHECK(checkpoint::read_state(save(engine, folder + "/with", Group(), 3, tokenizer)).tokenizer == tokenizer);
  CHECK(load_model(folder + "/with").tokenizer != nullptr);
  save(engine, folder + "/without", Group());
  CHECK(load_model(folder + "/without").tokenizer == nullptr);
  std::filesystem::remove_all(folder);
}
