// The diagnosis over tables of rank statuses: which rank is to blame, for what, in which words, and when there is no
// fault.
#include "watchdog/diagnosis.h"

#include "device/progress.h"
#include "test_main/catch.h"

using lt::CollectiveOp;
using lt::Phase;
using namespace lt::watchdog;

namespace {

constexpr Limits kLimits{5, 60};

// `size` ranks at step 41 in forward, each on a separate host, which have just made progress.
std::vector<Peer> ranks(int size) {
  std::vector<Peer> peers;
  for (int r = 0; r < size; ++r) {
    Peer& peer = peers.emplace_back();
    peer.rank = r, peer.host = std::string(1, static_cast<char>('a' + r % 26)), peer.pid = 100 + r;
    peer.status.phase = Phase::forward, peer.status.step = 41;
  }
  return peers;
}

GroupStatus group_of(int size, std::uint64_t begun, std::vector<Call> calls) {
  return {7, 0, 1, static_cast<std::uint32_t>(size), "reduce", 0, begun, std::move(calls)};
}

Call reduction(std::uint64_t sequence, bool ended, std::uint64_t whole = 24 << 20) {
  return {sequence, CollectiveOp::reduce_scatter, "blocks.3 gradients", whole, ended};
}

// Rank `late` hangs in forward; all others wait for it in collective 812 of `reduce`.
std::vector<Peer> waiting_for(int late, int size, double still_s) {
  std::vector<Peer> peers = ranks(size);
  for (Peer& peer : peers) {
    const bool waits = peer.rank != late;
    peer.status.still_s = still_s;
    peer.status.groups = {group_of(size, waits ? 813 : 812, {reduction(811, true)})};
    if (waits) peer.status.groups[0].calls.push_back(reduction(812, false));
    if (waits) peer.status.phase = Phase::backward;
  }
  return peers;
}

std::string message(const std::vector<Peer>& peers, const Limits& limits = kLimits) {
  const auto verdict = diagnose(peers, limits);
  return verdict ? verdict->message : "";
}

constexpr const char* kWait =
    "; ranks 0, 1, 3 wait for it in reduce_scatter \"blocks.3 gradients\" (#812 of group reduce, 24 MiB)";

}  // namespace

TEST_CASE("diagnosis: ranks that get on are well, and so is one that waits less than the limit", "[watchdog]") {
  CHECK(!diagnose(ranks(4), kLimits));
  CHECK(!diagnose(waiting_for(2, 4, 4), kLimits));
  CHECK(!diagnose(waiting_for(2, 4, 59.9), kLimits));
}

TEST_CASE("diagnosis: a rank without progress for which others wait", "[watchdog]") {
  const auto verdict = diagnose(waiting_for(2, 4, 60.26), kLimits);
  REQUIRE(verdict);
  CHECK(verdict->fault == lt::watchdog::Fault::hang);
  CHECK(verdict->ranks == std::vector<int>{2});
  CHECK(verdict->message ==
        std::string("rank 2 (host c, pid 102): no progress for 60.3 s at step 41, in forward") + kWait);
  CHECK(verdict->hint.find("gdb -p 102 on host c") == 0);
}

TEST_CASE("diagnosis: the limit adapts to the slowest step, and long phases have their own", "[watchdog]") {
  std::vector<Peer> peers = waiting_for(2, 4, 100);
  CHECK(diagnose(peers, kLimits));
  peers[0].status.slowest_step_s = 10.1;  // of any rank
  CHECK(!diagnose(peers, kLimits));
  peers[0].status.slowest_step_s = 9.9;
  CHECK(diagnose(peers, kLimits));

  for (const Phase phase :
       {Phase::start, Phase::save, Phase::load, Phase::evaluation, Phase::sampling, Phase::records}) {
    peers[2].status.phase = phase;
    CHECK(!diagnose(peers, kLimits));
    CHECK(lt::device::patience(phase) >= 10);
    peers[2].status.still_s = lt::device::patience(phase) * kLimits.collective_s + 1;
    CHECK(diagnose(peers, kLimits)->ranks == std::vector<int>{2});
    peers[2].status.still_s = 100;
  }
}

TEST_CASE("diagnosis: a rank that computes alone for too long within a step, and one that is in no phase",
          "[watchdog]") {
  std::vector<Peer> peers = ranks(2);
  peers[1].status.still_s = 61;
  CHECK(message(peers) == "rank 1 (host b, pid 101): no progress for 61.0 s at step 41, in forward");
  peers[1].status.phase = Phase::none;
  CHECK(!diagnose(peers, kLimits));
}

TEST_CASE("diagnosis: a collective that all have come to and that does not end", "[watchdog]") {
  std::vector<Peer> peers = waiting_for(3, 4, 61);
  peers[3].status.groups = peers[0].status.groups;
  CHECK(
      message(peers) ==
      "ranks 0-3: no progress for 61.0 s at step 41, in backward: reduce_scatter \"blocks.3 gradients\" (#812 of group "
      "reduce, 24 MiB) does not end, although all its ranks reached it");
}

TEST_CASE("diagnosis: silence and closed connections", "[watchdog]") {
  std::vector<Peer> peers = waiting_for(2, 4, 4);
  peers[2].silent_s = 5.16, peers[2].state = "stopped by a signal";
  CHECK(message(peers) == std::string("rank 2 (host c, pid 102): no sign of life for 5.2 s at step 41, in forward, "
                                      "stopped by a signal") +
                              kWait);
  peers[2].is_traced = true;
  CHECK(!diagnose(peers, kLimits));

  peers[2].is_traced = false, peers[2].link = Link::closed, peers[2].silent_s = 0;
  CHECK(message(peers) == std::string("rank 2 (host c, pid 102): the process is gone, its connection closed without a "
                                      "goodbye at step 41, in forward") +
                              kWait);
  CHECK(diagnose(peers, kLimits)->fault == lt::watchdog::Fault::gone);

  peers = ranks(8);
  for (int r = 4; r < 8; ++r)
    peers[static_cast<std::size_t>(r)].host = "b", peers[static_cast<std::size_t>(r)].silent_s = 6;
  CHECK(message(peers) == "ranks 4-7 (host b): no sign of life for 6.0 s at step 41, in forward");
}

TEST_CASE("diagnosis: ranks that wait in different calls", "[watchdog]") {
  std::vector<Peer> peers = waiting_for(2, 4, 61);
  peers[3].status.groups.push_back(
      {8, 0, 1, 4, "control", 0, 5, {{4, CollectiveOp::exchange, "bytes of all", 0, false}}});
  peers[3].status.groups[0].calls[1].ended = true;
  CHECK(
      message(peers).find("; ranks 0, 1 wait for it in reduce_scatter \"blocks.3 gradients\" (#812 of group reduce, 24 "
                          "MiB), rank 3 in exchange \"bytes of all\" (#4 of group control)") != std::string::npos);
}

TEST_CASE("diagnosis: the step of a rank that was heard of long ago is that of the ranks that wait for it",
          "[watchdog]") {
  std::vector<Peer> peers = waiting_for(2, 4, 4);
  peers[2].silent_s = 5.16, peers[2].status = RankStatus();
  CHECK(message(peers) == std::string("rank 2 (host c, pid 102): no sign of life for 5.2 s at step 41") + kWait);
}

TEST_CASE("diagnosis: the step of a rank for which nobody waits yet is about that of the others", "[watchdog]") {
  std::vector<Peer> peers = ranks(4);
  peers[2].link = Link::closed, peers[2].status.step = 34;
  const std::string gone = "rank 2 (host c, pid 102): the process is gone, its connection closed without a goodbye";
  CHECK(message(peers) == gone + " at about step 41");
  for (Peer& peer : peers) peer.status = RankStatus();
  CHECK(message(peers) == gone + " before the first step");
}

TEST_CASE("diagnosis: a mismatch is told from a hang, and at once", "[watchdog]") {
  std::vector<Peer> peers = waiting_for(2, 4, 6);
  peers[2].status.groups = {group_of(4, 813, {reduction(811, true), reduction(812, false, 12 << 20)})};
  const auto verdict = diagnose(peers, kLimits);
  REQUIRE(verdict);
  CHECK(verdict->fault == lt::watchdog::Fault::mismatch);
  CHECK(verdict->message ==
        "different collectives at step 41, in backward: rank 0 (host a, pid 100) reached reduce_scatter \"blocks.3 "
        "gradients\" (#812 of group reduce, 24 MiB), rank 2 (host c, pid 102) reached reduce_scatter \"blocks.3 "
        "gradients\" "
        "(#812 of group reduce, 12 MiB)");
  peers[2].status.groups[0].calls[1] = {812, CollectiveOp::all_gather, "blocks.3 gradients", 24 << 20, true};
  CHECK(diagnose(peers, kLimits)->fault == lt::watchdog::Fault::mismatch);
  // The same call in a later launch of a graph is a different one.
  peers[2].status.groups[0].launch = 1;
  CHECK(!diagnose(peers, kLimits));
  // Ranks that advance may be at different calls.
  for (Peer& peer : peers) peer.status.still_s = 4;
  peers[2].status.groups[0].launch = 0;
  CHECK(!diagnose(peers, kLimits));
}

TEST_CASE("diagnosis: ranks wait for one that has ended, or failed", "[watchdog]") {
  std::vector<Peer> peers = waiting_for(2, 4, 6);
  peers[2].link = Link::done, peers[2].silent_s = 4;
  CHECK(!diagnose(peers, kLimits));
  peers[2].silent_s = 5.5;
  CHECK(message(peers) == std::string("rank 2 (host c, pid 102): has ended its run at step 41, in forward") + kWait);
  peers[2].link = Link::failed;  // an evident failure
  CHECK(!diagnose(peers, kLimits));
  for (Peer& peer : peers) peer.status.still_s = 30;  // most of it for work of a healthy peer
  CHECK(!diagnose(peers, kLimits));
  peers[2].silent_s = 10.5;
  CHECK(diagnose(peers, kLimits)->fault == lt::watchdog::Fault::ended);
  CHECK(!diagnose(peers, {20, 60}));  // heartbeat_s, where it is longer
}

TEST_CASE("diagnosis: a rank that ended after it had come to the call is not awaited", "[watchdog]") {
  std::vector<Peer> peers = waiting_for(2, 4, 61);
  peers[3].link = Link::done, peers[3].silent_s = 61, peers[3].status.groups[0].calls.clear();
  CHECK(message(peers).find("rank 2 (host c, pid 102): no progress for 61.0 s at step 41, in forward") == 0);
}

TEST_CASE("diagnosis: who knows only a part of a group grants the others the patience of a save", "[watchdog]") {
  std::vector<Peer> peers = waiting_for(3, 4, 61);
  peers.resize(3);  // rank 3 is unknown
  peers[0].link = peers[1].link = Link::done, peers[0].silent_s = peers[1].silent_s = 61;
  CHECK(!diagnose(peers, kLimits));
  peers[2].status.still_s = lt::device::patience(Phase::save) * kLimits.collective_s + 1;
  CHECK(message(peers) ==
        "rank 2 (host c, pid 102): no progress for 601.0 s at step 41, in backward: reduce_scatter \"blocks.3 "
        "gradients\" (#812 of group reduce, 24 MiB) does not end, and not all its ranks are known here");
  CHECK(diagnose(peers, kLimits)->ranks == std::vector<int>{2});
}

TEST_CASE("diagnosis: only a rank that waits for nobody is to blame, over groups", "[watchdog]") {
  // 0 waits for 1 in one group, 1 for 2 in another.
  std::vector<Peer> peers = waiting_for(2, 3, 61);
  peers[0].status.groups = {group_of(3, 813, {reduction(812, true)}),
                            {8, 0, 1, 2, "pair", 0, 5, {reduction(4, false)}}};
  CHECK(diagnose(peers, kLimits)->ranks == std::vector<int>{2});
  peers[2].status.phase = Phase::save;
  CHECK(!diagnose(peers, kLimits));

  // Ranks of other groups do not matter: ranks 1 and 3 are a group.
  peers = ranks(4);
  peers[1].status.still_s = peers[3].status.still_s = 61;
  peers[1].status.groups = {{9, 1, 2, 2, "odd", 0, 5, {reduction(4, false)}}};
  CHECK(diagnose(peers, kLimits)->ranks == std::vector<int>{3});

  // Ranks 0, 1 and 3 are a group, which no stride describes: rank 2 is not blamed.
  peers = waiting_for(3, 4, 61);
  for (Peer& peer : peers) peer.status.groups[0].stride = 0, peer.status.groups[0].size = 3;
  peers[2].status.groups.clear(), peers[2].status.still_s = 0;
  CHECK(diagnose(peers, kLimits)->ranks == std::vector<int>{3});
}

TEST_CASE("diagnosis: ranks that wait for each other in two groups", "[watchdog]") {
  std::vector<Peer> peers = ranks(2);
  for (Peer& peer : peers) peer.status.still_s = 61;
  const auto status = [](std::uint64_t id, const char* name, bool open) {
    return GroupStatus{
        id, 0, 1, 2, name, 0, open ? 1u : 0u, open ? std::vector{reduction(0, false)} : std::vector<Call>()};
  };
  peers[0].status.groups = {status(1, "first", true), status(2, "second", false)};
  peers[1].status.groups = {status(1, "first", false), status(2, "second", true)};
  const auto verdict = diagnose(peers, kLimits);
  REQUIRE(verdict);
  CHECK(verdict->fault == lt::watchdog::Fault::deadlock);
  CHECK(verdict->ranks == std::vector<int>{0, 1});
  CHECK(verdict->message.find("they wait for each other, rank 0 in reduce_scatter \"blocks.3 gradients\" (#0 of group "
                              "first, 24 MiB), rank 1 in") != std::string::npos);
  CHECK(verdict->hint.find("the same shapes on all ranks") != std::string::npos);
}

TEST_CASE("statuses: what was encoded is decoded, and other bytes are refused", "[watchdog]") {
  RankStatus status = waiting_for(2, 4, 12.5)[0].status;
  status.count = 1234567890123u, status.slowest_step_s = 0.25;
  status.groups[0].launch = 9;
  const std::string bytes = encode(status);
  CHECK(decode(bytes) == status);
  for (std::size_t size = 0; size < bytes.size(); ++size) CHECK(!decode(bytes.substr(0, size)));
  CHECK(!decode(bytes + "x"));
  CHECK(encode(RankStatus()).size() < 64);
}

TEST_CASE("diagnosis: sixteen thousand ranks", "[watchdog]") {
  const auto verdict = diagnose(waiting_for(777, 1 << 14, 61), kLimits);
  REQUIRE(verdict);
  CHECK(verdict->ranks == std::vector<int>{777});
  CHECK(verdict->message.find("; ranks 0-776, 778-16383 wait for it in") != std::string::npos);
}
