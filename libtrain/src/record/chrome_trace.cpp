// Formats spans and kernels as JSON events.
#include "record/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

namespace lt::recorder {
namespace {

using Json = nlohmann::ordered_json;

// All processes and threads of a file have different numbers, and none is 0. Otherwise Perfetto confuses them.
constexpr int kNumbersOfRank = 1000;
int process_of(int rank) { return kNumbersOfRank * (rank + 1); }
int thread_of(int rank, std::size_t lane) { return process_of(rank) + 1 + static_cast<int>(lane); }

// A unit of a program's own model may have a name of any bytes.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json name_of(const char* what, int process, int thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

constexpr std::string_view kWorkNames[] = {"kernel", "memcpy", "memset"};  // indexed by DeviceWork

struct StreamRow {
  int thread = 0;
  double free_us = 0;
};

// One row per stream, after the lanes, keyed by the stream's number.
std::map<Size, StreamRow> rows_of(int rank, const std::vector<profile::KernelRecord>& kernels) {
  std::map<Size, StreamRow> rows;
  for (const profile::KernelRecord& kernel : kernels) rows[kernel.stream];
  std::size_t row = std::size(kLaneNames);
  for (auto& entry : rows) entry.second.thread = thread_of(rank, row++);
  return rows;
}

std::string kernel_events(int rank, const std::vector<profile::KernelRecord>& kernels) {
  std::string text;
  auto rows = rows_of(rank, kernels);
  for (const auto& [stream, row] : rows) {
    text += ",\n" + text_of(name_of("thread_name", process_of(rank), row.thread, fmt::format("stream {}", stream)));
  }
  for (const profile::KernelRecord& kernel : kernels) {
    StreamRow& row = rows.at(kernel.stream);
    const double begin_us = std::min(std::max(kernel.begin_us, row.free_us), kernel.end_us);
    Json event = {{"name", kernel.name},
                  {"cat", kWorkNames[static_cast<std::size_t>(kernel.kind)]},
                  {"ph", "X"},
                  {"pid", process_of(rank)},
                  {"tid", row.thread},
                  {"ts", begin_us},
                  {"dur", kernel.end_us - begin_us}};
    if (kernel.bytes >= 0) event["args"]["bytes"] = kernel.bytes;
    if (begin_us > kernel.begin_us) event["args"]["began_us"] = kernel.begin_us;
    row.free_us = std::max(row.free_us, kernel.end_us);
    text += ",\n" + text_of(event);
  }
  return text;
}

}  // namespace

std::string trace_events(int rank, const std::vector<Span>& spans, const std::vector<profile::KernelRecord>& kernels) {
  const int process = process_of(rank);
  std::string text = text_of(name_of("process_name", process, process, fmt::format("rank {}", rank)));
  std::array<double, std::size(kLaneNames)> free_us{};
  for (std::size_t lane = 0; lane < std::size(kLaneNames); ++lane) {
    const auto in_lane = [=](const Span& span) { return static_cast<std::size_t>(span.lane) == lane; };
    if (std::none_of(spans.begin(), spans.end(), in_lane)) continue;
    text += ",\n" + text_of(name_of("thread_name", process, thread_of(rank, lane), std::string(kLaneNames[lane])));
  }
  double last_us = 0;
  for (const Span& span : spans) last_us = std::max({last_us, span.begin_us, span.end_us});
  for (const Span& span : spans) {
    const bool open = span.end_us < 0;
    const double end_us = open ? last_us : span.end_us;
    const auto lane = static_cast<std::size_t>(span.lane);
    double begin_us = span.begin_us;
    Json event = {{"name", span.name}, {"ph", "X"}, {"pid", process}, {"tid", thread_of(rank, lane)}};
    if (span.lane != Lane::compute) {
      begin_us = std::min(std::max(begin_us, free_us[lane]), end_us);
      if (!open) free_us[lane] = std::max(free_us[lane], end_us);
      event["args"] = {{"bytes", span.collective.bytes}, {"posted_us", span.begin_us}};
    }
    if (open) event["args"]["open"] = true;
    event["ts"] = begin_us;
    event["dur"] = end_us - begin_us;
    text += ",\n" + text_of(event);
  }
  return text + kernel_events(rank, kernels);
}

}  // namespace lt::recorder
