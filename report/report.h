// Reports: pages for people, made from what runs left in their folders. How to read them: docs/report.md.
#pragma once

#include <string>
#include <vector>

namespace lt {

// The folder of a run that is named by it or by its metrics.jsonl.
std::string run_folder(const std::string& run);

// One offline HTML file, and its Markdown beside it, from one or more runs, each named as run_folder() takes it. Throws
// DataError for what cannot be read or written, UsageError for a run given twice and an `out_html` that is no such
// file.
void write_report(const std::vector<std::string>& runs, const std::string& out_html);

}  // namespace lt
