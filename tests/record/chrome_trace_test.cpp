// Kernels in a trace: each stream has its own row next to the rows of spans, on the same clock, with a distinct number.
#include "record/chrome_trace.h"

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "test_main/catch.h"

using namespace lt;
using namespace lt::recorder;
using Json = nlohmann::json;

namespace {

const std::vector<Span> kSpans = {{Lane::compute, "forward", {}, true, 1, 40},
                                  {Lane::gather, "blocks.0", {64}, false, 2, 9}};

std::vector<Json> events_of(const std::string& events) {
  return Json::parse(std::string(kTraceBegin) + events + std::string(kTraceEnd))["traceEvents"]
      .get<std::vector<Json>>();
}

// The rows by name, with their events in order.
std::map<std::string, std::vector<Json>> rows_of(const std::string& events) {
  std::map<int, std::string> names;
  std::map<std::string, std::vector<Json>> rows;
  for (const Json& event : events_of(events)) {
    if (event["name"] == "thread_name") names[event["tid"].get<int>()] = event["args"]["name"].get<std::string>();
    if (event["ph"] == "X") rows[names.at(event["tid"].get<int>())].push_back(event);
  }
  return rows;
}

}  // namespace

TEST_CASE("chrome trace: each stream has a row, with its work's names, kinds, bytes and times", "[record]") {
  const auto rows = rows_of(trace_events(0, kSpans,
                                         {{profile::DeviceWork::kernel, "gemm<float>(int)", 13, -1, 2.5, 7},
                                          {profile::DeviceWork::memcpy, "memcpy host to device", 7, 256, 3, 4},
                                          {profile::DeviceWork::memset, "memset", 13, 8, 7.25, 8}}));
  REQUIRE(rows.size() == 4);
  CHECK(rows.at("compute").size() == 1);
  CHECK(rows.at("gather").size() == 1);
  REQUIRE(rows.at("stream 13").size() == 2);
  REQUIRE(rows.at("stream 7").size() == 1);

  const Json& kernel = rows.at("stream 13")[0];
  CHECK(kernel["name"] == "gemm<float>(int)");
  CHECK(kernel["cat"] == "kernel");
  CHECK(kernel["ts"] == 2.5);
  CHECK(kernel["dur"] == 4.5);
  CHECK_FALSE(kernel.contains("args"));
  const Json& fill = rows.at("stream 13")[1];
  CHECK(fill["cat"] == "memset");
  CHECK(fill["ts"] == 7.25);
  CHECK(fill["args"] == Json{{"bytes", 8}});
  const Json& copy = rows.at("stream 7")[0];
  CHECK(copy["cat"] == "memcpy");
  CHECK(copy["dur"] == 1);
  CHECK(copy["args"] == Json{{"bytes", 256}});
}

TEST_CASE("chrome trace: work that overlaps on one stream is drawn one after the other, on two it is not", "[record]") {
  const auto rows = rows_of(trace_events(0, {},
                                         {{profile::DeviceWork::kernel, "a", 1, -1, 10, 20},
                                          {profile::DeviceWork::kernel, "other", 2, -1, 12, 19},
                                          {profile::DeviceWork::kernel, "b", 1, -1, 18, 30},
                                          {profile::DeviceWork::kernel, "within", 1, -1, 25, 28},
                                          {profile::DeviceWork::kernel, "c", 1, -1, 31, 33}}));
  const auto& row = rows.at("stream 1");
  REQUIRE(row.size() == 4);
  const std::vector<std::array<double, 2>> drawn = {{10, 10}, {20, 10}, {28, 0}, {31, 2}};  // begin, duration
  for (std::size_t i = 0; i < row.size(); ++i) {
    INFO(row[i].dump());
    CHECK(row[i]["ts"] == drawn[i][0]);
    CHECK(row[i]["dur"] == drawn[i][1]);
  }
  CHECK(row[1]["args"] == Json{{"began_us", 18}});
  CHECK_FALSE(row[3].contains("args"));
  CHECK(rows.at("stream 2")[0]["ts"] == 12);
}

TEST_CASE("chrome trace: no two rows or processes share a number, and none is 0", "[record]") {
  std::vector<profile::KernelRecord> kernels;
  for (Size stream = 0; stream < 40; ++stream) kernels.push_back({profile::DeviceWork::kernel, "k", stream, -1, 1, 2});
  std::set<int> numbers;
  std::size_t named = 0;
  for (const int rank : {0, 1, 2}) {
    for (const Json& event : events_of(trace_events(rank, kSpans, kernels))) {
      if (event["ph"] != "M") continue;
      ++named;
      numbers.insert(event[event["name"] == "process_name" ? "pid" : "tid"].get<int>());
    }
  }
  CHECK(named == 3 * (1 + 2 + 40));
  CHECK(numbers.size() == named);
  CHECK(numbers.count(0) == 0);
}

TEST_CASE("chrome trace: names may have any bytes", "[record]") {
  std::vector<Span> spans = kSpans;
  spans[0].name =
      "bl\xf6"
      "cke";
  CHECK(rows_of(trace_events(0, spans, {{profile::DeviceWork::kernel, "gemm\xff", 13, -1, 2.5, 7}})).size() == 3);
}

TEST_CASE("chrome trace: without kernels it is that of the spans alone", "[record]") {
  CHECK(trace_events(1, kSpans) == trace_events(1, kSpans, {}));
  const auto rows = rows_of(trace_events(1, kSpans));
  CHECK(rows.size() == 2);
  CHECK(rows.count("compute") == 1);
  CHECK(rows.count("gather") == 1);
}
