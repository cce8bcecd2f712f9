// Estimates the byte counts of a plan in floating point, which does not overflow.
#include "plan/plan_limits.h"

#include <fmt/format.h>

#include <string>

#include "libtrain/error.h"

namespace lt::planner {
namespace {

// A parameter takes less than 2^7 bytes: weights, gradients, states of the optimizer, copies and what is sent of them.
constexpr double kMostPlannedParameters = 0x1p50;
// A value of values_of_token() takes less than 2^7 bytes: activations, their gradients, and keys and values.
constexpr double kMostPlannedValues = 0x1p55;

// The channels of all layers, and the logits.
double values_of_token(const nn::TransformerSpec& spec) {
  const double heads = static_cast<double>(spec.heads) * static_cast<double>(spec.head_dim);
  const double layer = static_cast<double>(spec.width) + 3 * heads + 3 * static_cast<double>(spec.ffn);
  return static_cast<double>(spec.layers) * layer + 4 * static_cast<double>(spec.vocab);
}

}  // namespace

void require_plannable(const nn::Model& model, const PlannedTokens& tokens) {
  double parameters = 0;
  for (const nn::NamedParameter& entry : model.all_parameters()) {
    parameters += static_cast<double>(entry.parameter->shape().elements());
  }
  const std::string details = model.facts(1).details, in_model = details.empty() ? "" : " in " + details;
  if (parameters > kMostPlannedParameters) {
    throw UsageError("plan", fmt::format("parameters: expected at most 2^50, got {:.3g}{}", parameters, in_model));
  }
  const auto* const transformer = dynamic_cast<const nn::Transformer*>(&model);
  if (transformer == nullptr) return;
  const double most = kMostPlannedValues / values_of_token(transformer->spec());
  const double asked = static_cast<double>(tokens.samples) * static_cast<double>(tokens.seq);
  if (asked <= most) return;
  throw UsageError("plan",
                   fmt::format("{} x {}: expected at most {:.3g} tokens, got {} x {} = {:.3g}{}", tokens.samples_key,
                               tokens.seq_key, most, tokens.samples, tokens.seq, asked, in_model));
}

}  // namespace lt::planner
