// The parts of a report: tables and charts of one run, and those that compare several.
#pragma once

#include <vector>

#include "record/report_data.h"
#include "record/report_document.h"
#include "record/report_summary.h"

namespace lt::report {

// Everything of one run, headings at `level` and one below.
void add_run(Document& document, const RunData& run, int level);

// Key figures side by side, losses in one chart, scaling over ranks, and the settings that differ.
void add_comparison(Document& document, const std::vector<RunData>& runs);

// Losses of training and evaluation; of several runs each one's evaluation, or training where it has none.
Figure loss_figure(const std::vector<const RunData*>& runs);

}  // namespace lt::report
