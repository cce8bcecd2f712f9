// Composes a report from runs and writes its two files, each beside its place and then renamed.
#include "libtrain/report.h"

#include <filesystem>

#include "core/pending_file.h"
#include "libtrain/error.h"
#include "report/sections.h"

namespace lt {

namespace fs = std::filesystem;

void write_report(const std::vector<std::string>& run_directories, const std::string& out_html) {
  if (run_directories.empty()) throw UsageError("report", "runs: expected at least one folder, got none");
  const fs::path html(out_html);
  if (fs::is_directory(html)) throw UsageError("report", "--out " + out_html + ": expected a file, found a folder");
  if (html.extension() == ".md") {
    throw UsageError("report",
                     "--out " + out_html + ": expected the name of the HTML file, the Markdown gets that name");
  }
  for (std::size_t i = 0; i < run_directories.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (fs::weakly_canonical(run_directories[i]) == fs::weakly_canonical(run_directories[j]))
        throw UsageError("report", "runs: expected each folder once, got " + run_directories[i] + " twice");
    }
  }
  std::vector<report::RunData> runs;
  for (const std::string& directory : run_directories) runs.push_back(report::read_run(directory));

  // Folders of one name are told apart by the whole path.
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = 0; j < runs.size(); ++j) {
      if (i != j && fs::path(runs[i].directory).lexically_normal().filename() ==
                        fs::path(runs[j].directory).lexically_normal().filename()) {
        runs[i].name = runs[i].directory;
      }
    }
  }
  report::Document document;
  if (runs.size() == 1) {
    document.title = "Training report: " + runs[0].name;
    report::add_run(document, runs[0], 1);
  } else {
    document.title = "Training report: " + std::to_string(runs.size()) + " runs";
    document.add(report::Heading{1, document.title});
    report::add_comparison(document, runs);
    for (const report::RunData& run : runs) report::add_run(document, run, 2);
  }
  report::add_glossary(document);
  write_whole_file("report", html.string(), report::to_html(document));
  write_whole_file("report", fs::path(html).replace_extension(".md").string(),
                   report::to_markdown(document, html.filename().string()));
}

}  // namespace lt
