// The sections of a report: tables and charts of one run, and comparisons of several. Each function adds its heading at
// `level` and the content below it, or nothing if the run has no data for it.
#pragma once

#include <vector>

#include "report/data.h"
#include "report/document.h"
#include "report/summary.h"

namespace lt::report {

// Adds all sections of one run, with headings at `level` and one below.
void add_run(Document& document, const RunData& run, int level);

// What ran and how it ended, four figures, the losses, the phases of a step, and the findings below a heading at
// `level` + 1.
void add_first_screen(Document& document, const RunData& run, const Summary& summary, int level);

// Adds the last error of an unfinished run, skipped updates, and the command that continues the run.
void add_status(Document& document, const RunData& run, const Summary& summary);
// "The run was restarted once: 6.0 s down, 40 steps repeated."; empty without restarts.
std::string restarts_note(const RunData& run);

// The sections of add_run().
void add_training(Document& document, const RunData& run, int level);
void add_time(Document& document, const RunData& run, int level);
void add_restarts(Document& document, const RunData& run, int level);
void add_ranks(Document& document, const RunData& run, int level);
void add_collectives(Document& document, const RunData& run, int level);
void add_memory(Document& document, const RunData& run, int level);
void add_record(Document& document, const RunData& run, int level);

// Adds key figures side by side, scaling over ranks, step times, memory, losses in one chart, and the settings that
// differ.
void add_comparison(Document& document, const std::vector<RunData>& runs);

// Explains the terms that a report uses. Called once, at the end.
void add_glossary(Document& document);

// Returns a table with one row per pair: name, value as text, share of the total, and a bar in the colours of a chart's
// legend.
Table shares(const std::string& what, const std::string& unit, const std::vector<std::pair<std::string, double>>& rows,
             std::string (*text)(double));

}  // namespace lt::report
