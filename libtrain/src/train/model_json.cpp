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
    json.at("family").get_to(spec.family);
    json.at("layers").get_to(spec.layers);
    json.at("heads").get_to(spec.heads);
    json.at("kv_heads").get_to(spec.kv_heads);
    json.at("width").get_to(spec.width);
    json.at("ffn").get_to(spec.ffn);
    json.at("vocab").get_to(spec.vocab);
    json.at("max_seq").get_to(spec.max_seq);
    json.at("norm_eps").get_to(spec.norm_eps);
    json.at("rope_base").get_to(spec.rope_base);
    json.at("dropout").get_to(spec.dropout);
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
