// The curves of training over steps, tokens or time: losses, evaluations, gradient norm and learning rate.
#pragma once

#include <vector>

#include "report/data.h"
#include "report/document.h"

namespace lt::report {

// For one run, training and evaluation losses share a chart. For several runs, evaluation losses have a separate chart.
// A chart without data is an empty figure.
std::vector<Figure> training_figures(const std::vector<const RunData*>& runs);
// The losses of one run over its steps.
std::vector<Figure> loss_figures(const RunData& run);

}  // namespace lt::report
