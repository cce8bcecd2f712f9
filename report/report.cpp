// Composes a report from runs and writes its two files, each under a temporary name and then renamed.
#include "report/report.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "io/file.h"
#include "io/file_name.h"
#include "libtrain/error.h"
#include "report/live.h"
#include "report/sections.h"

namespace lt::report {

namespace fs = std::filesystem;

std::string run_folder(const std::string& run) {
  fs::path folder = fs::path(run).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (folder.filename() == "metrics.jsonl") folder = folder.parent_path();
  return folder.empty() ? "." : folder.string();
}

namespace {

void require_html(const fs::path& html) {
  const std::string given = html.string();
  if (fs::is_directory(html)) throw UsageError("report", "--out " + given + ": expected a file, found a folder");
  if (html.extension() == ".md") {
    throw UsageError("report", "--out " + given + ": expected the name of the HTML file, the Markdown gets that name");
  }
}

std::vector<RunData> read_runs(const std::vector<std::string>& given) {
  if (given.empty()) throw UsageError("report", "runs: expected at least one folder, got none");
  std::vector<RunData> runs;
  std::vector<fs::path> folders;
  for (const std::string& run : given) {
    const fs::path folder = fs::weakly_canonical(run_folder(run));
    if (std::find(folders.begin(), folders.end(), folder) != folders.end())
      throw UsageError("report", "runs: expected each once, got " + run + " twice");
    folders.push_back(folder);
    runs.push_back(read_run(run));
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
  return runs;
}

Document composed(const std::vector<RunData>& runs) {
  Document document;
  if (runs.size() == 1) {
    document.title = "Training report: " + runs[0].name;
    add_run(document, runs[0], 1);
  } else {
    document.title = "Training report: " + std::to_string(runs.size()) + " runs";
    document.add(Heading{1, document.title});
    document.add(Contents{});
    add_comparison(document, runs);
    for (const RunData& run : runs) add_run(document, run, 2);
  }
  add_glossary(document);
  return document;
}

// The name of a file that goes with the page: the page's, with another extension.
std::string beside(const fs::path& html, const char* extension) {
  return io::with_suffix(fs::path(html).replace_extension(), extension);
}

void write_markdown(const Document& document, const fs::path& html) {
  io::write_whole_file("report", beside(html, ".md"), to_markdown(document, html.filename().string()));
}

void write_pages(const Document& document, const fs::path& html) {
  io::write_whole_file("report", html.string(), to_html(document));
  write_markdown(document, html);
}

constexpr double kPatienceS = 30;  // a run that begins anew is unreadable for a moment
constexpr double kReadingS = 10;   // an open page learns at least this often when the runs were read

// Pages of runs that go on: an HTML page that is written once, and the script beside it that brings its content.
class Follower {
 public:
  Follower(const std::vector<std::string>& given, const fs::path& html)
      : given_(given), html_(html), data_(beside(html, ".live.js")) {}

  // Reads the runs and shows what is new. Returns whether a run still goes on.
  bool look() {
    const auto begin = std::chrono::steady_clock::now();
    read();
    Document document = composed(runs_);
    document.blocks.insert(document.blocks.begin() + 1, now(runs_));
    const std::string body = body_html(document);
    const double read_at = runs_.front().read_at;
    if (shown_.empty()) {
      const std::string data = fs::path(data_).filename().string();
      io::write_whole_file("report", html_.string(), to_live_html(document, data));
    }
    if (body != shown_ || read_at - shown_at_ >= kReadingS) {
      io::write_whole_file("report", data_, live_data(body, read_at, pause_after(begin)));
      shown_at_ = read_at;
    }
    if (body != shown_) write_markdown(document, html_);
    shown_ = body;
    pause_s_ = pause_after(begin);
    return !all_ended(runs_);
  }

  double pause() const { return pause_s_; }  // seconds until the next look

  // Replaces the page by one that needs no other file, and tells pages that are open that no reading follows.
  void finish() {
    write_pages(composed(runs_), html_);
    io::write_whole_file("report", data_, last_data(shown_, runs_.front().read_at));
  }

 private:
  // Composing a page of a long run takes its time, so the pages take at most a tenth of a core.
  static double pause_after(std::chrono::steady_clock::time_point begin) {
    return std::max(1.0, 9 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }

  // Keeps the earlier reading of runs that cannot be read, for a while.
  void read() {
    try {
      runs_ = read_runs(given_);
      is_unreadable_ = false, unreadable_s_ = 0;
    } catch (const DataError&) {
      if (runs_.empty()) throw;
      if (is_unreadable_) unreadable_s_ += pause_s_;
      is_unreadable_ = true;
      if (unreadable_s_ < kPatienceS) return;
      finish();
      throw;
    }
  }

  const std::vector<std::string>& given_;
  const fs::path html_;
  const std::string data_;
  std::vector<RunData> runs_;
  std::string shown_;
  double shown_at_ = 0, pause_s_ = 1;
  bool is_unreadable_ = false;
  double unreadable_s_ = 0;  // between the first look that failed and this one
};

}  // namespace

void write_report(const std::vector<std::string>& runs, const std::string& out_html) {
  require_html(out_html);
  write_pages(composed(read_runs(runs)), out_html);
}

void follow_report(const std::vector<std::string>& given, const std::string& out_html,
                   const std::function<bool(double seconds)>& wait) {
  require_html(out_html);
  Follower follower(given, out_html);
  while (follower.look() && wait(follower.pause())) {
  }
  follower.finish();
}

}  // namespace lt::report
