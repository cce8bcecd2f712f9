// Reports: pages made from the folders of runs. docs/report.md explains how to read them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lt::report {

// The folder of a run, given the folder or its metrics.jsonl.
std::string run_folder(const std::string& run);

// Writes one offline HTML file, and its Markdown beside it, from one or more runs, each given as for run_folder().
// Throws DataError for files that cannot be read or written, UsageError for a run given twice and for an `out_html`
// that is not an HTML file.
void write_report(const std::vector<std::string>& runs, const std::string& out_html);

// Writes the same files and keeps them current until every run has ended, or `wait`, called between two looks at the
// runs with the seconds to wait, returns false. Meanwhile an open page takes its content from a script beside it
// (out.live.js for out.html); afterwards the page is one of write_report(), and pages that are still open say that it
// has ended. Throws as write_report(), but for a run that becomes unreadable later only if it stays so for 30 s.
void follow_report(const std::vector<std::string>& runs, const std::string& out_html,
                   const std::function<bool(double seconds)>& wait);

}  // namespace lt::report
