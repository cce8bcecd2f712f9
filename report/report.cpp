// Composes a report from runs and writes its two files, each under a temporary name and then renamed.
#include "report/report.h"

#include <algorithm>
#include <filesystem>

#include "io/pending_file.h"
#include "libtrain/error.h"
#include "report/sections.h"

namespace lt {

namespace fs = std::filesystem;

std::string run_folder(const std::string& run) {
  fs::path folder = fs::path(run).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (folder.filename() == "metrics.jsonl") folder = folder.parent_path();
  return folder.empty() ? "." : folder.string();
}

void write_report(const std::vector<std::string>& given, const std::string& out_html) {
  if (given.empty()) throw UsageError("report", "runs: expected at least one folder, got none");
  const fs::path html(out_html);
  if (fs::is_directory(html)) throw UsageError("report", "--out " + out_html + ": expected a file, found a folder");
  if (html.extension() == ".md") {
    throw UsageError("report",
                     "--out " + out_html + ": expected the name of the HTML file, the Markdown gets that name");
  }
  std::vector<report::RunData> runs;
  std::vector<fs::path> folders;
  for (const std::string& run : given) {
    const fs::path folder = fs::weakly_canonical(run_folder(run));
    if (std::find(folders.begin(), folders.end(), folder) != folders.end())
      throw UsageError("report", "runs: expected each once, got " + run + " twice");
    folders.push_back(folder);
    runs.push_back(report::read_run(run));
  }

  // Runs whose folders have the same name are shown with the whole path.
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
