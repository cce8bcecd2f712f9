// Reads two results, matches their rows and compares the differences with the noise.
#include "compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <vector>

#include "io/whole_file.h"
#include "result.h"

namespace lt::bench {
namespace {

// Fields of `machine` that must be equal for times to be comparable.
constexpr const char* kMachine[] = {"host",       "processor", "processors", "memory_bytes",    "ranks",
                                    "built_with", "libraries", "driver",     "omp_num_threads", "threads_per_rank"};

std::string short_text(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

// A parsed result file. Every error names the file and the field.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    try {
      document_ = Json::parse(read_whole_file("bench", path));
    } catch (const Json::parse_error& error) {
      throw DataError("bench", fmt::format("{}: expected JSON, got something else at byte {}", path, error.byte));
    }
    require(document_.is_object(), "the whole", "an object", document_);
    const Json schema = field("schema"), rows = field("rows");
    require(schema.is_number_integer() && schema.get<int>() == kSchema, "schema", std::to_string(kSchema), schema);
    require(field("benchmark").is_string(), "benchmark", "a name", field("benchmark"));
    require(field("machine").is_object(), "machine", "an object", field("machine"));
    require(rows.is_array(), "rows", "an array", rows);
    for (const Json& row : rows) add(row);
  }

  Json field(const char* name) const { return document_.value(name, Json()); }
  Json machine(const char* name) const { return field("machine").value(name, Json()); }
  const std::string& path() const { return path_; }
  // In file order.
  const std::vector<std::string>& names() const { return names_; }
  const RowTimes* find(const std::string& name) const {
    const auto found = times_.find(name);
    return found == times_.end() ? nullptr : &found->second;
  }

 private:
  void require(bool holds, const std::string& what, const std::string& expected, const Json& actual) const {
    if (holds) return;
    throw DataError("bench",
                    fmt::format("{}: {}: expected {}, got {}", path_, what, expected,
                                actual.is_null() ? "nothing" : short_text(actual)),
                    "a result is what `ltrain bench kernels|comm|step|scaling|recorder --out FILE` writes");
  }

  void add(const Json& row) {
    const std::string at = fmt::format("rows[{}]", names_.size());
    require(row.is_object(), at, "an object", row);
    std::string name = field("benchmark").get<std::string>();
    for (const std::string_view key : kIdentity) {
      const Json value = row.value(std::string(key), Json());
      if (value.is_null()) continue;
      name += key == "ranks" ? " ranks=" + value.dump()
                             : " " + (value.is_string() ? value.get<std::string>() : value.dump());
    }
    const Json ms = row.value("ms", Json());
    require(ms.is_object(), at + ".ms", "an object", ms);
    const auto number = [&](const std::string& key, const Json& value) {
      require(value.is_number() && value.get<double>() > 0, at + ".ms." + key, "a number above 0", value);
      return value.get<double>();
    };
    RowTimes times{number("min", ms.value("min", Json())), number("median", ms.value("median", Json()))};
    const Json blocks = ms.value("blocks", Json::array());
    require(blocks.is_array(), at + ".ms.blocks", "an array", blocks);
    for (const Json& block : blocks) times.blocks.push_back(number("blocks", block));
    require(times_.emplace(name, times).second, at, "a row of its own", name);
    names_.push_back(name);
  }

  std::string path_;
  Json document_;
  std::vector<std::string> names_;
  std::map<std::string, RowTimes> times_;
};

void describe(const char* which, const Reader& result) {
  fmt::print("{}: {}\n   commit {}, {} warm-up, {} counted: {}\n", which, result.path(),
             short_text(result.machine("commit")), result.field("warmup").dump(), result.field("iterations").dump(),
             result.field("command").is_string() ? result.field("command").get<std::string>() : "unknown command");
}

void warn_of_differences(const Reader& a, const Reader& b) {
  for (const char* name : kMachine) {
    const Json left = a.machine(name), right = b.machine(name);
    if (left == right) continue;
    fmt::print(stderr, "warning: machine.{}: A has {}, B has {}\n", name, short_text(left), short_text(right));
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
std::vector<Match> rows_of_both(const Reader& a, const Reader& b) {
  std::vector<Match> matches;
  for (const std::string& name : a.names()) {
    if (const RowTimes* other = b.find(name)) matches.push_back({name, *a.find(name), *other});
  }
  if (!matches.empty()) return matches;
  throw DataError("bench", fmt::format("{}: expected a row that is in {} too, found none: {} {} rows and {} {} rows",
                                       b.path(), a.path(), a.names().size(), short_text(a.field("benchmark")),
                                       b.names().size(), short_text(b.field("benchmark"))));
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

void print_unmatched(const char* which, const Reader& result, const Reader& other) {
  for (const std::string& name : result.names()) {
    if (other.find(name) == nullptr) fmt::print("only in {}: {}\n", which, name);
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
  const Reader a(path_a), b(path_b);
  const std::vector<Match> matches = rows_of_both(a, b);
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
