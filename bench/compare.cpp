// Reads two results, matches their rows and compares the differences with the noise.
#include "bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "bench/result_file.h"
#include "io/print_note.h"

namespace lt::bench {
namespace {

// Fields of `machine` that must be equal for times to be comparable.
constexpr const char* kMachine[] = {"host",         "processor",       "processors",      "gpu",
                                    "memory_bytes", "ranks",           "built_with",      "libraries",
                                    "driver",       "omp_num_threads", "threads_per_rank"};

void describe(const char* which, const ResultFile& result) {
  fmt::print("{}: {}\n   commit {}, {} warm-up, {} counted: {}\n", which, result.path(),
             short_text(result.machine("commit")), result.field("warmup").dump(), result.field("iterations").dump(),
             result.field("command").is_string() ? result.field("command").get<std::string>() : "unknown command");
}

// A processor's times say nothing of a GPU's, whatever the rows are called.
void require_same_device(const ResultFile& a, const ResultFile& b) {
  const Json left = a.field("device"), right = b.field("device");
  if (left.is_null() || right.is_null() || left == right) return;
  throw DataError("bench", fmt::format("{}: device: expected {} as in {}, got {}", b.path(), short_text(left), a.path(),
                                       short_text(right)));
}

void warn_of_differences(const ResultFile& a, const ResultFile& b) {
  for (const char* name : kMachine) {
    const Json left = a.machine(name), right = b.machine(name);
    if (left == right) continue;
    io::print_note("warning: machine.{}: A has {}, B has {}\n", name, short_text(left), short_text(right));
  }
}

const char* text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::slower: return "SLOWER";
    case Verdict::faster: return "faster";
    case Verdict::unclear: return "unclear";
    default: return "same";
  }
}

// A row present in both results.
struct Match {
  std::string name;
  RowTimes a, b;
};

// In the order of A. Throws DataError if the files share no row.
std::vector<Match> rows_of_both(const ResultFile& a, const ResultFile& b) {
  std::vector<Match> matches;
  for (const MeasuredRow& row : a.rows()) {
    if (const MeasuredRow* other = b.find(row)) matches.push_back({row.name(), row.times, other->times});
  }
  if (!matches.empty()) return matches;
  const bool is_empty = a.rows().empty() || b.rows().empty();
  throw DataError(
      "bench",
      fmt::format("{}: expected a row that measures the same as one of {}, found none{}", b.path(), a.path(),
                  is_empty ? fmt::format(": {} rows there, {} here", a.rows().size(), b.rows().size())
                           : "; the nearest two differ in " + nearest_difference(a.rows(), b.rows())),
      "two results of the same options compare: `command` in each file has them");
}

using Counts = std::array<int, 4>;  // one count per Verdict
int count_of(const Counts& counts, Verdict verdict) { return counts[static_cast<std::size_t>(verdict)]; }

Counts print_matches(const std::vector<Match>& matches, double threshold) {
  std::size_t width = 4;
  for (const Match& match : matches) width = std::max(width, match.name.size());
  fmt::print("\n{:<{}} {:>12} {:>12} {:>7} {:>7}  verdict\n", "row", width, "A median ms", "B median ms", "B / A",
             "noise");
  Counts counts{};
  for (const auto& [name, a, b] : matches) {
    const Difference d = compare(a, b, threshold);
    ++counts[static_cast<std::size_t>(d.verdict)];
    fmt::print("{:<{}} {:>12.4f} {:>12.4f} {:>7.3f} {:>5.0f} %  {}\n", name, width, a.median, b.median, d.ratio,
               100 * d.noise, text_of(d.verdict));
  }
  return counts;
}

void print_unmatched(const char* which, const ResultFile& result, const ResultFile& other) {
  for (const MeasuredRow& row : result.rows()) {
    if (other.find(row) == nullptr) fmt::print("only in {}: {}\n", which, row.name());
  }
}

void print_summary(std::size_t rows, const Counts& counts) {
  fmt::print("\n{} row{}: {} slower, {} faster, {} the same within noise, {} unclear\n", rows, rows == 1 ? "" : "s",
             count_of(counts, Verdict::slower), count_of(counts, Verdict::faster), count_of(counts, Verdict::same),
             count_of(counts, Verdict::unclear));
}

}  // namespace

Difference compare(const RowTimes& a, const RowTimes& b, double threshold) {
  const auto spread = [](const RowTimes& t) {
    double way = t.median - t.min;
    if (!t.blocks.empty()) {
      const auto [least, most] = std::minmax_element(t.blocks.begin(), t.blocks.end());
      way = std::max(way, *most - *least);
    }
    return way / t.median;
  };
  const double ratio = b.median / a.median, noise = std::max({threshold, 2 * spread(a), 2 * spread(b)});
  const Verdict verdict = ratio > 1 + noise                         ? Verdict::slower
                          : ratio * (1 + noise) < 1                 ? Verdict::faster
                          : noise > std::max(threshold, kMostNoise) ? Verdict::unclear
                                                                    : Verdict::same;
  return {ratio, noise, verdict};
}

ExitCode compare_results(const std::string& path_a, const std::string& path_b, double threshold) {
  const ResultFile a(path_a), b(path_b);
  const std::vector<Match> matches = rows_of_both(a, b);
  require_same_device(a, b);
  describe("A", a);
  describe("B", b);
  std::fflush(stdout);
  warn_of_differences(a, b);
  const Counts counts = print_matches(matches, threshold);
  print_unmatched("A", a, b);
  print_unmatched("B", b, a);
  print_summary(matches.size(), counts);
  return count_of(counts, Verdict::slower) > 0 ? ExitCode::slower : ExitCode::ok;
}

}  // namespace lt::bench
