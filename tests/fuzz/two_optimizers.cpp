// Replaces config/optimizer_choices.cpp, which needs the optimizers, in a fuzz target.
#include "config/optimizer_choices.h"

namespace lt::config {

std::vector<std::string> optimizer_names() { return {"adamw", "muon"}; }

}  // namespace lt::config
