// The curves of training over steps, tokens or time: losses, evaluations, gradient norm and learning rate.
#pragma once

#include <vector>

#include "report/data.h"
#include "report/document.h"

namespace lt::report {

// A chart without data is an empty figure.

// Training and evaluation losses of one run, over steps or, if `all_axes`, also over tokens and time.
Figure loss_figure(const RunData& run, bool all_axes);
// Gradient norm and learning rate. For several runs also their training losses and their evaluation losses.
std::vector<Figure> training_figures(const std::vector<const RunData*>& runs);

}  // namespace lt::report
