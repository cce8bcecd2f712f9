// The description of a model as JSON, and back.
#include "train/model_json.h"

#include <nlohmann/json.hpp>

#include "libtrain/error.h"

namespace lt {

std::string to_json(const nn::TransformerSpec& spec, Size seq) {
  return nlohmann::ordered_json{{"family", spec.family},
                                {"layers", spec.layers},
                                {"heads", spec.heads},
                                {"kv_heads", spec.kv_heads},
                                {"width", spec.width},
                                {"ffn", spec.ffn},
                                {"vocab", spec.vocab},
                                {"max_seq", spec.max_seq},
                                {"norm_eps", spec.norm_eps},
                                {"rope_base", spec.rope_base},
                                {"tie_embeddings", spec.tied()},
                                {"dropout", spec.dropout},
                                {"seq", seq}}
      .dump();
}

ModelDescription model_from_json(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    nn::TransformerSpec spec;
    spec.family = json.at("family").get<std::string>();
    spec.layers = json.at("layers"), spec.heads = json.at("heads"), spec.kv_heads = json.at("kv_heads");
    spec.width = json.at("width"), spec.ffn = json.at("ffn"), spec.vocab = json.at("vocab"),
    spec.max_seq = json.at("max_seq");
    spec.norm_eps = json.at("norm_eps"), spec.rope_base = json.at("rope_base"), spec.dropout = json.at("dropout");
    spec.tie_embeddings = json.at("tie_embeddings").get<bool>();
    nn::validate(spec);
    return {spec, json.at("seq").get<Size>()};
  } catch (const nlohmann::json::exception& error) {
    throw DataError("checkpoint", std::string("model: ") + error.what());
  } catch (const UsageError& error) {
    throw DataError("checkpoint", error.what());
  }
}

}  // namespace lt
