// Reports: pages for people, made from what runs left in their folders. How to read them: docs/report.md.
#pragma once

#include <string>
#include <vector>

namespace lt {

// One offline HTML file, and its Markdown beside it, from the folders of one or more runs. Throws DataError.
void write_report(const std::vector<std::string>& run_directories, const std::string& out_html);

}  // namespace lt
