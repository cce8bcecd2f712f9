// Reports: pages made from the folders of runs. docs/how-to/reports.md explains how to read them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace lt::report {

// Returns the folder of a run, given the folder or the path of its metrics.jsonl.
std::string run_folder(const std::string& run);

// Writes one offline HTML file from one or more runs, each given as for run_folder(), and the same report as Markdown
// (out.md for out.html). Throws DataError for files that cannot be read or written, UsageError if no run or the same
// run twice is given, or if `out_html` is a folder or ends in .md.
void write_report(const std::vector<std::string>& runs, const std::string& out_html);

// Writes the same files and keeps them current until every run has ended or `wait` returns false. Calls `wait` between
// two readings of the runs, with the seconds to wait. Meanwhile an open page loads its content from a script in the
// same folder (out.live.js for out.html). At the end, the files are as write_report() writes them, and pages that are
// still open say that following has ended. Throws the errors of write_report(). If a run becomes unreadable later,
// throws only after it was unreadable for 30 s.
void follow_report(const std::vector<std::string>& runs, const std::string& out_html,
                   const std::function<bool(double seconds)>& wait);

}  // namespace lt::report
