// Collects the frames of each exchange, compares them, and answers.
#include "comm/tcp/tcp_switchboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "libtrain/error.h"

namespace lt::comm {
namespace {

std::string describe(int rank, const FrameHeader& header) {
  const std::string name = header.kind == FrameKind::gather       ? "all_gather_bytes or barrier"
                           : header.kind == FrameKind::all_to_all ? "a collective of tensors"
                                                                  : fmt::format("broadcast from {}", header.root);
  return fmt::format("rank {} is at exchange {}, {}", rank, header.sequence, name);
}

}  // namespace

Switchboard::Switchboard(int ranks, Answer answer) : answer_(std::move(answer)), ranks_(ranks) {
  std::vector<int>& members = channels_[kWorldChannel].members;
  members.resize(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
}

void Switchboard::take(int rank, Frame frame) {
  const std::uint64_t number = frame.header.channel;
  switch (frame.header.kind) {
    case FrameKind::open_channel: return open(rank, frame);
    case FrameKind::close_channel: return static_cast<void>(channels_.erase(number));
    case FrameKind::gather:
    case FrameKind::broadcast:
    case FrameKind::all_to_all: break;
    case FrameKind::refusal:
    case FrameKind::failure:
    case FrameKind::loss: throw CommError("expected an exchange, got a failure");
  }
  if (!channels_[number].waiting.emplace(rank, std::move(frame)).second) {
    throw CommError("expected one exchange of a group at a time, got two");
  }
  settle(number);
}

void Switchboard::open(int rank, const Frame& frame) {
  std::vector<int> members(frame.payload->size() / sizeof(int));
  std::memcpy(members.data(), frame.payload->data(), members.size() * sizeof(int));
  Channel& channel = channels_[frame.header.channel];
  const bool is_sound = !members.empty() && members.front() == rank && members.back() < ranks_ &&
                        std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end();
  if (!is_sound || !channel.members.empty()) throw CommError("expected a new group led by its first rank");
  channel.members = std::move(members);
  settle(frame.header.channel);
}

void Switchboard::lose(int rank, const std::string& why) {
  lost_.emplace_back(rank, why);
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, channel] : channels_) numbers.push_back(number);
  for (const std::uint64_t number : numbers) settle(number);
}

void Switchboard::settle(std::uint64_t number) {
  Channel& channel = channels_.at(number);
  if (channel.waiting.empty()) return;
  if (channel.members.empty() || channel.waiting.size() < channel.members.size()) {
    for (const auto& [rank, why] : lost_) {
      if (is_missing(channel, rank)) return fail(number, FrameKind::loss, fmt::format("rank {}: {}", rank, why));
    }
    return;
  }
  if (const std::string why = mismatch(channel); !why.empty()) return fail(number, FrameKind::failure, why);
  const std::map<int, Frame> all = std::exchange(channel.waiting, {});
  const FrameHeader header = all.begin()->second.header;
  if (header.kind == FrameKind::broadcast) return answer_all(channel, all.at(channel.members.at(header.root)));
  std::uint64_t bytes = 0;
  for (const auto& [rank, frame] : all) bytes += sizeof(std::uint64_t) + frame.payload->size();
  if (bytes > kMostMessageBytes) {
    channel.waiting = all;
    return fail(number, FrameKind::refusal,
                fmt::format("expected at most {} bytes of all ranks together, got {}", kMostMessageBytes, bytes));
  }
  if (header.kind == FrameKind::all_to_all) return answer_each(channel, header, all);
  std::vector<const std::string*> texts;
  for (const auto& [rank, frame] : all) texts.push_back(frame.payload.get());
  answer_all(channel, Frame(header, pack_texts(texts)));
}

void Switchboard::answer_all(const Channel& channel, const Frame& frame) {
  for (const int rank : channel.members) answer_(rank, frame);
}

void Switchboard::answer_each(const Channel& channel, const FrameHeader& header, const std::map<int, Frame>& all) {
  std::vector<std::vector<std::string>> texts;  // [from][to]
  for (const auto& [rank, frame] : all) {
    texts.push_back(unpack_texts(*frame.payload, static_cast<int>(channel.members.size())));
  }
  for (std::size_t to = 0; to < channel.members.size(); ++to) {
    std::vector<const std::string*> of_member;
    for (const std::vector<std::string>& from : texts) of_member.push_back(&from[to]);
    answer_(channel.members[to], Frame(header, pack_texts(of_member)));
  }
}

bool Switchboard::is_missing(const Channel& channel, int rank) {
  if (channel.members.empty()) {  // only its leader knows them
    return channel.waiting.begin()->second.header.leader == static_cast<std::uint32_t>(rank);
  }
  return channel.waiting.count(rank) == 0 && std::binary_search(channel.members.begin(), channel.members.end(), rank);
}

void Switchboard::fail(std::uint64_t number, FrameKind kind, const std::string& why) {
  FrameHeader header;
  header.kind = kind, header.channel = number;
  const Frame failure(header, why);
  for (const auto& [rank, frame] : std::exchange(channels_.at(number).waiting, {})) answer_(rank, failure);
}

std::string Switchboard::mismatch(const Channel& channel) {
  const auto& [first, expected] = *channel.waiting.begin();
  for (const auto& [rank, frame] : channel.waiting) {
    const FrameHeader &a = expected.header, &b = frame.header;
    if (a.kind == b.kind && a.root == b.root && a.sequence == b.sequence && b.root < channel.members.size()) continue;
    return fmt::format("{}, {}", describe(first, a), describe(rank, b));
  }
  return {};
}

}  // namespace lt::comm
