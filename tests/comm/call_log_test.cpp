// The log of a group's calls, which the watchdog reads. It shows the position of the host, or of a device that writes
// its progress, also within CUDA graphs. The tests write to plain memory in place of a device.
#include "comm/call_log.h"

#include "device/progress.h"
#include "libtrain/device/context.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::comm;

namespace {

constexpr std::size_t kAll = 8;

std::uint64_t begin_on_device(CallLog& log) {
  return log.begin(CollectiveOp::all_gather, "blocks.0 parameters", 4, 8, true);
}

// '.' for each finished call, 'o' for an open one.
std::string states(const GroupCalls& group) {
  std::string text;
  for (const CollectiveRecord& call : group.calls) text += call.ended ? '.' : 'o';
  return text;
}

}  // namespace

TEST_CASE("call log: on the host a call ends when it was waited for", "[comm]") {
  CallLog log({0, 2, 0, 2, "reduce"});
  const auto first = log.begin(CollectiveOp::reduce_scatter, "a", 1, 2),
             second = log.begin(CollectiveOp::barrier, "b", 0, 0);
  log.end(second);
  const GroupCalls calls = log.calls(kAll, true);
  CHECK(states(calls) == "o.");
  CHECK(calls.begun == 2);
  CHECK(!calls.as_device);
  CHECK(calls.calls[0].name == "a");
  CHECK(calls.calls[0].whole == 2);
  log.end(first);
  CHECK(states(log.calls(kAll, true)) == "..");
  CHECK(states(log.calls(1, true)) == ".");
}

TEST_CASE("call log: on a device the words say how far it has come", "[comm]") {
  CallLog log({0, 2, 0, 2, "gather"});
  const auto words = std::make_shared<DeviceWords>();
  log.watch(words);
  for (int i = 0; i < 3; ++i) log.end(begin_on_device(log));  // the host runs ahead
  CHECK(log.calls(kAll, true).begun == 0);
  CHECK(states(log.calls(kAll, false)) == "ooo");
  words->begun = 1;
  CHECK(states(log.calls(kAll, true)) == "o");
  words->ended = 1, words->begun = 2;
  CHECK(states(log.calls(kAll, true)) == ".o");
  CHECK(states(log.calls(kAll, false)) == ".oo");
  CHECK(log.calls(kAll, true).as_device);

  // The graph captured with calls 0 to 2 runs again after the graph with calls 3 to 5.
  for (int i = 0; i < 3; ++i) begin_on_device(log);
  words->ended = words->begun = 6;
  CHECK(states(log.calls(kAll, true)) == "......");
  const std::uint64_t before = device_progress();
  words->begun = 2, words->ended = 1;
  CHECK(device_progress() != before);
  CHECK(log.calls(kAll, true).begun == 2);
  CHECK(states(log.calls(kAll, true)) == ".o");
}

TEST_CASE("call log: the calls of a graph stay known however many come after them", "[comm]") {
  CallLog log({0, 2, 0, 2, "gather"});
  const auto words = std::make_shared<DeviceWords>();
  log.watch(words);
  {
    GraphCalls graph;
    const ContextMemberScope<&Context::graph_calls> captured(&graph);
    for (int i = 0; i < 3; ++i) begin_on_device(log);
  }
  for (int i = 0; i < 2000; ++i) log.end(begin_on_device(log));  // those of evaluations
  words->begun = 3, words->ended = 2;                            // the graph runs again
  CHECK(log.calls(kAll, true).begun == 3);
  CHECK(states(log.calls(kAll, true)) == "..o");
  words->begun = words->ended = 1500;  // of which nothing is kept
  CHECK(log.calls(kAll, true).calls.empty());
}

TEST_CASE("call log: a call of the host after those of the device is where the rank is", "[comm]") {
  CallLog log({0, 2, 0, 2, "control"});
  const auto words = std::make_shared<DeviceWords>();
  log.watch(words);
  begin_on_device(log);
  words->begun = words->ended = 1;
  const auto barrier = log.begin(CollectiveOp::barrier, "barrier", 0, 0);
  CHECK(log.calls(kAll, true).begun == 2);
  CHECK(states(log.calls(kAll, true)) == ".o");
  CHECK(!log.calls(kAll, true).as_device);
  log.end(barrier);
  CHECK(states(log.calls(kAll, true)) == "..");
}

TEST_CASE("call log: groups of one rank, on paper and in the background count for no progress", "[comm]") {
  GroupPlace paper{0, 2, 0, 2, "meta"};
  paper.on_paper = true;
  CallLog alone({0, 1, 0, 1, "self"}), planned(paper), real({0, 2, 0, 2, "real"});
  const std::uint64_t before = device::read_progress().count;
  std::vector<std::string> list;
  {
    const CallListScope scope(&list);
    for (CallLog* log : {&alone, &planned}) log->end(log->begin(CollectiveOp::barrier, "b", 0, 0));
    const BackgroundScope background;
    real.end(real.begin(CollectiveOp::barrier, "b", 0, 0));
  }
  CHECK(device::read_progress().count == before);
  CHECK(list == std::vector<std::string>{"barrier \"b\" of 0 bytes in group meta"});
  const auto groups = calls_of_groups(kAll, true);
  CHECK(groups.size() == 1);
  CHECK(groups[0].in_background);
  real.end(real.begin(CollectiveOp::barrier, "b", 0, 0));
  CHECK(device::read_progress().count == before + 2);
}
