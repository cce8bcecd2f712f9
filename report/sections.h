// The sections of a report: tables and charts of one run, and those that compare several. Each adds its heading, at
// `level`, and what stands below it; nothing where the run has none of it.
#pragma once

#include <vector>

#include "report/data.h"
#include "report/document.h"
#include "report/summary.h"

namespace lt::report {

// Everything of one run, headings at `level` and one below.
void add_run(Document& document, const RunData& run, int level);

// The sections that add_run() adds.
void add_findings(Document& document, const RunData& run, int level);
void add_training(Document& document, const RunData& run, int level);
void add_time(Document& document, const RunData& run, int level);
void add_restarts(Document& document, const RunData& run, int level);
void add_ranks(Document& document, const RunData& run, int level);
void add_collectives(Document& document, const RunData& run, int level);
void add_memory(Document& document, const RunData& run, int level);
void add_record(Document& document, const RunData& run, int level);

// Key figures side by side, scaling over ranks, losses in one chart, and the settings that differ.
void add_comparison(Document& document, const std::vector<RunData>& runs);

// What the words of a report mean; once, at its end.
void add_glossary(Document& document);

// Losses of training and evaluation; of several runs each one's training.
Figure loss_figure(const std::vector<const RunData*>& runs);

// A field of every step.
std::vector<double> all_of(const RunData& run, double StepRow::*member);
// Rows of name, value as text, and share of the total with a bar in the colours of a chart's legend.
Table shares(const std::string& what, const std::string& unit, const std::vector<std::pair<std::string, double>>& rows,
             std::string (*text)(double));

}  // namespace lt::report
