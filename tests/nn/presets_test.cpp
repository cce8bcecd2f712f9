// The table of presets against the published shapes, FLOPs per token, and invalid descriptions.
#include <cmath>

#include "libtrain/error.h"
#include "nn/passes.h"
#include "nn/spec_fields.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt_test;
using nn::TransformerSpec;

namespace {

// The number of parameters by the papers' descriptions: C channels, F of the feed-forward layer, K of keys or values.
Size counted(const TransformerSpec& spec) {
  const Size C = spec.width, F = spec.ffn, V = spec.vocab, L = spec.layers;
  const Size D = spec.head_dim > 0 ? spec.head_dim : C / spec.heads, Q = spec.heads * D, K = spec.kv_heads * D;
  const bool gpt = spec.family == "gpt2";
  const Size block = gpt ? (3 * C * C + 3 * C) + (C * C + C) + (C * F + F) + (F * C + C) + 2 * 2 * C
                         : C * (Q + 2 * K) + Q * C + 3 * C * F + 2 * C + (spec.family == "qwen3" ? 2 * D : 0);
  return V * C + (gpt ? spec.max_seq * C : 0) + L * block + (gpt ? 2 * C : C) + (spec.tied() ? 0 : V * C);
}

template <class F>
std::string refusal_of(const F& body) {
  try {
    body();
  } catch (const UsageError& error) {
    CHECK(error.component() == "model");
    return error.what();
  }
  return "nothing was refused";
}

std::string no_such_family(const std::string& name) {
  std::string names;
  for (const std::string& family : family_names()) names += (names.empty() ? "" : ", ") + family;
  return "family: expected one of " + names + ", got \"" + name + '"';
}

std::string refusal(const TransformerSpec& spec) {
  return refusal_of([&] { nn::validate(nn::with_defaults(spec)); });
}

}  // namespace

TEST_CASE("presets: a shape is named after its preset, any other by what it is", "[nn]") {
  for (const nn::Preset& preset : nn::presets()) {
    REQUIRE(nn::preset_of(preset.spec) == &preset);
    CHECK(nn::model_name(preset.spec) == preset.name);
  }
  TransformerSpec spec = nn::preset("gpt-tiny");
  spec.dropout = 0.1, spec.tie_embeddings = std::nullopt;
  CHECK(nn::model_name(spec) == "gpt-tiny");
  spec.ffn = 256;
  CHECK(nn::preset_of(spec) == nullptr);
  CHECK(nn::model_name(spec) == "gpt2-4x128");
}

TEST_CASE("presets: as many parameters as their shapes say", "[nn]") {
  for (const nn::Preset& preset : nn::presets()) {
    INFO(preset.name);
    CHECK(nn::make_transformer(preset.spec)->parameter_count() == counted(preset.spec));
    CHECK_NOTHROW(nn::validate(nn::with_defaults(preset.spec)));
  }
  const auto count = [](const std::string& name, std::optional<bool> tied = std::nullopt) {
    TransformerSpec spec = nn::preset(name);
    if (tied) spec.tie_embeddings = tied;
    return nn::make_transformer(spec)->parameter_count();
  };
  CHECK(count("gpt2-124m") == 124475904);  // the published 124439808 and 47 rows of padded vocabulary
  CHECK(count("gpt2-1.5b") == 1557686400);
  CHECK(count("llama-8b") == 8030261248);
  CHECK(count("llama-70b") == 70553706496);
  CHECK(count("llama-3.2-1b") == 1235814400);
  CHECK(count("llama-3.2-3b") == 3212749824);
  CHECK(count("qwen3-0.6b") == 596049920);
  CHECK(count("qwen3-8b") == 8190735360);
  CHECK(count("mistral-7b") == 7241732096);
  CHECK(count("llama-1b", true) == 1235814400);  // the published models of these two sizes are tied
  CHECK(count("llama-3b", true) == 3212749824);
}

TEST_CASE("presets by name", "[nn]") {
  CHECK(nn::preset("llama-tiny").kv_heads == 2);
  CHECK(nn::preset("gpt-tiny").tied());
  CHECK_FALSE(nn::preset("llama-8b").tied());
  try {
    nn::preset("gpt5");
    FAIL("gpt5 was found");
  } catch (const UsageError& error) {
    CHECK(error.field() == "preset");
    CHECK_THAT(error.what(), Catch::Matchers::StartsWith("preset: expected one of gpt2-124m, gpt2-350m"));
  }
}

TEST_CASE("what is left out follows from the rest", "[nn]") {
  TransformerSpec gpt{.family = "gpt2", .layers = 1, .heads = 4, .width = 64, .vocab = 10, .max_seq = 8};
  CHECK(nn::with_defaults(gpt).ffn == 256);
  CHECK(nn::with_defaults(gpt).kv_heads == 4);
  CHECK(nn::with_defaults(gpt).tied());
  gpt.family = "llama";
  CHECK(nn::with_defaults(gpt).ffn == 192);  // 170.7, rounded up to a multiple of 32
  CHECK_FALSE(nn::with_defaults(gpt).tied());
  gpt.ffn = 100, gpt.kv_heads = 2, gpt.tie_embeddings = true;
  CHECK(nn::with_defaults(gpt).ffn == 100);
  CHECK(nn::with_defaults(gpt).kv_heads == 2);
  CHECK(nn::with_defaults(gpt).tied());
}

TEST_CASE("FLOPs of a token: three times the matmuls of a forward pass", "[nn]") {
  const auto flops = [](const std::string& name, Size seq) {
    return nn::make_transformer(nn::preset(name))->flops_per_token(seq);
  };
  // 4 blocks of 12 x 128^2 weights; attention; the head.
  CHECK(flops("gpt-tiny", 256) == 3.0 * (2 * 4 * 12 * 128 * 128 + 2 * 4 * 256 * 128 + 2 * 128 * 256));
  CHECK(flops("gpt2-124m", 1024) == 3.0 * (2.0 * 84934656 + 2.0 * 12 * 1024 * 768 + 2.0 * 768 * 50304));
  // One block: qkv 4096 x 6144, proj 4096^2, three matmuls of the feed-forward layer.
  const double llama_block = 4096.0 * 6144 + 4096.0 * 4096 + 3 * 4096.0 * 14336;
  CHECK(flops("llama-8b", 4096) == 3 * (2 * 32 * llama_block + 2.0 * 32 * 4096 * 4096 + 2.0 * 4096 * 128256));
}

TEST_CASE("validate names the field and what it found", "[nn]") {
  const TransformerSpec gpt = nn::preset("gpt-tiny"), llama = nn::preset("llama-tiny");
  const auto with = [](TransformerSpec spec, auto change) { return change(spec), refusal(spec); };
  CHECK(with(gpt, [](auto& s) { s.heads = 5; }) == "heads: expected a divisor of width 128, got 5");
  CHECK(with(llama, [](auto& s) { s.kv_heads = 3; }) == "kv_heads: expected a divisor of heads 4, got 3");
  CHECK(with(gpt, [](auto& s) { s.kv_heads = 2; }) == "kv_heads: expected as many as heads in gpt2, 4, got 2");
  CHECK(with(gpt, [](auto& s) { s.layers = 0; }) == "layers: expected at least 1, got 0");
  CHECK(with(gpt, [](auto& s) { s.vocab = -1; }) == "vocab: expected at least 1, got -1");
  CHECK(with(gpt, [](auto& s) { s.heads = 0; }) == "heads: expected at least 1, got 0");
  CHECK(with(gpt, [](auto& s) { s.max_seq = 0; }) == "max_seq: expected at least 1, got 0");
  CHECK(with(gpt, [](auto& s) { s.family = "bert"; }) == no_such_family("bert"));
  CHECK(with(llama, [](auto& s) { s.width = 12; }) == "head_dim: expected an even number for rotary positions, got 3");
  CHECK(with(gpt, [](auto& s) { s.head_dim = -2; }) == "head_dim: expected at least 1, got -2");
  CHECK(with(llama, [](auto& s) { s.window = -1; }) == "window: expected at least 0, got -1");
  CHECK(with(llama, [](auto& s) { s.rope_scaling = "yarn"; }) ==
        "rope_scaling: expected linear:FACTOR, llama3:FACTOR,LOW,HIGH,ORIGINAL or none, got \"yarn\"");
  const auto scaling = [&](const char* text) { return with(llama, [&](auto& s) { s.rope_scaling = text; }); };
  for (const char* const broken :
       {"linear", "linear:", "linear:2,3", "linear:x", "llama3:8,1,4", "llama3:8,1,4,8192,", ":"}) {
    CHECK(scaling(broken).starts_with("rope_scaling: expected linear:FACTOR"));
  }
  CHECK(scaling("linear:1") == "nothing was refused");
  CHECK(scaling("linear:0.5") == "rope_scaling: expected a FACTOR of at least 1, got \"linear:0.5\"");
  for (const char* const outside : {"linear:nan", "linear:-2", "linear:1e300", "llama3:8,0,4,8192"}) {
    CHECK(scaling(outside).starts_with("rope_scaling: expected numbers above 0 and at most 1e+12, got \""));
  }
  for (const char* const equal : {"llama3:8,4,1,8192", "llama3:8,4,4,8192"}) {
    CHECK(scaling(equal).starts_with("rope_scaling: expected a LOW below HIGH, got \""));
  }
  CHECK(with(llama, [](auto& s) { s.rope_scaling = "llama3:8,1,4,8192"; }) == "nothing was refused");
  CHECK(with(llama, [](auto& s) { s.rope_scaling = "llama3:8,1,4,8192.5"; }).ends_with("got \"llama3:8,1,4,8192.5\""));
  CHECK(with(gpt, [](auto& s) { s.rope_scaling = "linear:2"; }) ==
        "rope_scaling: expected none for gpt2, which has learned positions, got \"linear:2\"");
  CHECK(with(gpt, [](auto& s) { s.dropout = 1; }) == "dropout: expected a number in [0, 1), got 1");
  CHECK(with(gpt, [](auto& s) { s.dropout = -0.1; }) == "dropout: expected at least 0, got -0.1");
  CHECK(with(gpt, [](auto& s) { s.norm_eps = -1; }) == "norm_eps: expected at least 0, got -1");
  CHECK(with(llama, [](auto& s) { s.rope_base = std::nan(""); }) == "rope_base: expected at least 0, got nan");
}

TEST_CASE("a family's defaults fill what is not set, and nothing else", "[nn]") {
  TransformerSpec spec = two_blocks("qwen3");
  spec.head_dim = 0;
  TransformerSpec made = nn::with_defaults(spec);
  CHECK(made.qk_norm == true);
  CHECK(made.rope_base == 1e6);
  CHECK(made.norm_eps == 1e-6f);
  CHECK(made.head_dim == 4);
  spec.qk_norm = false, spec.rope_base = 5000, spec.norm_eps = 1e-3f, spec.head_dim = 10;
  made = nn::with_defaults(spec);
  CHECK(made.qk_norm == false);
  CHECK(made.rope_base == 5000);
  CHECK(made.norm_eps == 1e-3f);
  CHECK(made.head_dim == 10);
  for (const nn::SpecField& field : nn::spec_fields()) {
    INFO(field.name);
    CHECK(nn::is_equal(nn::with_defaults(made), made, field));
  }
}

TEST_CASE("FLOPs of a window: the positions that are seen", "[nn]") {
  TransformerSpec spec = nn::preset("llama-tiny");
  const auto flops = [&] { return nn::make_transformer(spec)->flops_per_token(256); };
  const double all = flops();
  spec.window = 256;
  CHECK(flops() == all);
  spec.window = 64;  // of 128 on the average, a token sees 64 - 8
  CHECK(all - flops() == 3.0 * 4 * 4 * 128 * (128 - 56));
}

TEST_CASE("make_transformer refuses what validate refuses", "[nn]") {
  TransformerSpec spec = nn::preset("gpt-tiny");
  CHECK_NOTHROW(nn::make_transformer(spec));
  spec.family = "bert";  // the only error
  CHECK(refusal_of([&] { nn::make_transformer(spec); }) == no_such_family("bert"));
  spec.family = "llama", spec.heads = 5;
  CHECK(refusal_of([&] { nn::make_transformer(spec); }) == "heads: expected a divisor of width 128, got 5");
}
