// Places the parameters of a unit in its flat buffers.
#include "parallel/layout.h"

namespace lt {
namespace {

Size round_up(Size value, Size multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

UnitLayout::UnitLayout(std::string name, const std::vector<nn::NamedParameter>& parameters, int world_size)
    : name_(std::move(name)) {
  Size at = 0;
  for (const bool decays : {true, false}) {
    for (const nn::NamedParameter& entry : parameters) {
      if (entry.parameter->decays() != decays) continue;
      const Size elements = entry.parameter->shape().elements();
      ranges_.push_back({entry.name, entry.parameter, at, elements});
      at = round_up(at + elements, kAlignment);
    }
    if (decays) decayed_ = at;
  }
  padded_ = round_up(at, kAlignment * world_size);
}

}  // namespace lt
