// The description of a model as JSON, and back.
#include "train/model_json.h"

#include <nlohmann/json.hpp>

#include "libtrain/error.h"
#include "model_number.h"

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
  using namespace checkpoint;
  try {
    const auto json = nlohmann::json::parse(text);
    nn::TransformerSpec spec;
    json.at("family").get_to(spec.family);
    spec.layers = model_size(json, "layers", kMaxModelLayers);
    spec.heads = model_size(json, "heads");
    spec.kv_heads = model_size(json, "kv_heads");
    spec.width = model_size(json, "width");
    spec.ffn = model_size(json, "ffn");
    spec.vocab = model_size(json, "vocab");
    spec.max_seq = model_size(json, "max_seq");
    spec.norm_eps = static_cast<float>(model_real(json, "norm_eps", 0, 1));
    spec.rope_base = model_real(json, "rope_base", 0, 1e12);
    spec.dropout = model_real(json, "dropout", 0, 1);
    spec.tie_embeddings = json.at("tie_embeddings").get<bool>();
    nn::validate(spec);
    return {spec, model_size(json, "seq")};
  } catch (const nlohmann::json::exception& error) {
    throw DataError("checkpoint", std::string("model: ") + error.what());
  } catch (const UsageError& error) {
    throw DataError("checkpoint", error.what());
  }
}

}  // namespace lt
