// Assigns the parameters of a unit their offsets.
#include "parallel/layout.h"

namespace lt::parallel {

UnitLayout::UnitLayout(std::string name, const std::vector<nn::NamedParameter>& parameters, int parts)
    : name_(std::move(name)) {
  Size at = 0;
  for (const bool decays : {true, false}) {
    for (const nn::NamedParameter& entry : parameters) {
      if (entry.parameter->decays() != decays) continue;
      const Size elements = entry.parameter->shape().elements();
      ranges_.push_back({entry.name, entry.parameter, at, elements});
      at = aligned(at + elements);
    }
    if (decays) decayed_ = at;
  }
  padded_ = aligned(at, parts);
}

}  // namespace lt::parallel
