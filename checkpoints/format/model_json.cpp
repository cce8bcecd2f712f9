// The fields of the JSON object, and the checks of a text that is read.
#include "checkpoints/format/model_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <type_traits>

#include "libtrain/error.h"
#include "nn/model_family.h"
#include "nn/spec_fields.h"

namespace lt::checkpoint {
namespace {

using Fields = nlohmann::json;

[[noreturn]] void refuse_field(std::string_view key, const std::string& expected, const Fields& found) {
  throw DataError("checkpoint", fmt::format("manifest.json: model.{}: expected {}, found {}", key, expected,
                                            found.is_structured() ? found.type_name() : found.dump()));
}

void read(const Fields& value, const nn::SpecField& field, Size& to) {
  if (!value.is_number_integer() || value < field.low || value > field.high) {
    refuse_field(field.name, fmt::format("an integer of {} to {}", field.low, field.high), value);
  }
  value.get_to(to);
}

template <class Real>
void read_real(const Fields& value, const nn::SpecField& field, Real& to) {
  if (!value.is_number() || !(value.get<double>() >= field.low && value.get<double>() <= field.high)) {
    refuse_field(field.name, fmt::format("a number of {} to {}", field.low, field.high), value);
  }
  to = static_cast<Real>(value.get<double>());
}
void read(const Fields& value, const nn::SpecField& field, float& to) { read_real(value, field, to); }
void read(const Fields& value, const nn::SpecField& field, double& to) { read_real(value, field, to); }

void read(const Fields& value, const nn::SpecField& field, std::string& to) {
  if (!value.is_string()) refuse_field(field.name, "text", value);
  value.get_to(to);
}

void read(const Fields& value, const nn::SpecField& field, std::optional<bool>& to) {
  if (!value.is_boolean()) refuse_field(field.name, "true or false", value);
  to = value.get<bool>();
}

void read(const Fields& value, const nn::SpecField& field, nn::Lora& to) {
  const auto require = [&](bool holds, const char* expected) {
    if (!holds) refuse_field(field.name, expected, value);
  };
  require(value.is_object(), "an object");
  const Fields &rank = value.at("rank"), &alpha = value.at("alpha"), &targets = value.at("targets");
  require(rank.is_number_integer() && rank >= 1 && rank < (1 << 28), "a rank of at least 1");
  require(alpha.is_number(), "a number alpha");
  require(targets.is_array() && targets.size() <= 64, "at most 64 targets");
  rank.get_to(to.rank), alpha.get_to(to.alpha);
  for (const Fields& target : targets) {
    require(target.is_string(), "targets that are texts");
    to.targets.push_back(target.get<std::string>());
  }
}

nlohmann::ordered_json json_of(const nn::Lora& lora) {
  if (lora.rank == 0) return nlohmann::ordered_json::object();
  return {{"rank", lora.rank}, {"alpha", lora.alpha}, {"targets", lora.targets}};
}
template <class T>
nlohmann::ordered_json json_of(const T& value) {
  return value;
}
nlohmann::ordered_json json_of(const std::optional<bool>& value) { return value.value_or(false); }

}  // namespace

nlohmann::ordered_json all_fields(const nn::TransformerSpec& spec) {
  nlohmann::ordered_json json;
  for (const nn::SpecField& field : nn::spec_fields()) {
    json[std::string(field.name)] = std::visit([&](auto member) { return json_of(spec.*member); }, field.member);
  }
  return json;
}

std::string model_to_json(const nn::TransformerSpec& spec, Size seq) {
  nlohmann::ordered_json json = all_fields(spec);
  for (const nn::SpecField& field : nn::spec_fields()) {
    if (field.optional && nn::is_default(spec, field)) json.erase(std::string(field.name));
  }
  json["seq"] = seq;
  return json.dump();
}

ModelDescription model_from_json(const std::string& text) {
  constexpr const char* kOwn = "checkpoints that a program of your own saved are loaded and exported by that program";
  if (text.empty() || text == "{}") {
    throw DataError("checkpoint", "manifest.json: model: expected a description of a transformer, found none", kOwn);
  }
  try {
    const Fields json = Fields::parse(text);
    try {
      nn::find_family(json.at("family").get<std::string>());
    } catch (const UsageError& error) {
      throw DataError("checkpoint", std::string("manifest.json: model.") + error.what(), kOwn);
    }
    ModelDescription description;
    for (const nn::SpecField& field : nn::spec_fields()) {
      const auto found = json.find(field.name);
      if (found == json.end() && field.optional) continue;
      const Fields& value = json.at(std::string(field.name));
      std::visit([&](auto member) { read(value, field, description.spec.*member); }, field.member);
    }
    if (const auto seq = json.find("seq"); seq != json.end()) {
      const nn::SpecField limits{"seq", &nn::TransformerSpec::max_seq, 1, static_cast<double>(description.spec.max_seq),
                                 ""};
      read(*seq, limits, description.seq);
    }
    description.spec = nn::with_defaults(description.spec);
    nn::validate(description.spec);
    return description;
  } catch (const nlohmann::json::exception& error) {
    throw DataError("checkpoint", std::string("manifest.json: model: ") + error.what());
  } catch (const UsageError& error) {
    throw DataError("checkpoint", std::string("manifest.json: model.") + error.what());
  }
}

}  // namespace lt::checkpoint
