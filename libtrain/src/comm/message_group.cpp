// Turns each tensor collective into messages. They start at once and end in wait().
#include "comm/message_group.h"

#include <cstring>
#include <vector>

#include "comm/collective_log.h"
#include "kernels/elementwise.h"
#include "kernels/reduce.h"

namespace lt::comm {

void MessageTransfer::wait() {
  {
    const WaitingScope waiting;
    complete();
  }
  if (finish_) finish_();
}

std::unique_ptr<Transfer> MessageBackend::all_gather(const AllGatherCall& call) {
  auto transfer = next_transfer();
  auto* full = static_cast<std::byte*>(call.full_N);
  const Size element = dtype_bytes(call.dtype), mine = size_of(call.n, rank());
  for_peers([&](int r) { transfer->receive(full + begin_of(call.n, r) * element, size_of(call.n, r), call.dtype, r); });
  for_peers([&](int r) { transfer->send(call.part_P, mine, call.dtype, r); });
  transfer->start();
  std::byte* own = full + begin_of(call.n, rank()) * element;
  if (mine > 0 && own != call.part_P) std::memcpy(own, call.part_P, static_cast<std::size_t>(mine * element));
  return transfer;
}

std::unique_ptr<Transfer> MessageBackend::reduce_scatter(const ReduceScatterCall& call) {
  auto transfer = next_transfer();
  const Size element = dtype_bytes(call.wire), mine = size_of(call.n, rank());
  auto* incoming = static_cast<std::byte*>(call.incoming);
  std::vector<const void*> contributions(static_cast<std::size_t>(size()));
  for_peers([&](int r) {
    std::byte* place = incoming + (r < rank() ? r : r - 1) * mine * element;
    contributions[static_cast<std::size_t>(r)] = place;
    transfer->receive(place, mine, call.wire, r);
  });
  // Own values are rounded to the wire type too, so that the result does not depend on which rank adds.
  const auto* outgoing = static_cast<const std::byte*>(call.full_N);
  if (call.wire != call.dtype && call.n > 0) {
    kernels::convert(CpuStream{}, call.wire, call.outgoing, call.dtype, call.full_N, call.n, false);
    outgoing = static_cast<const std::byte*>(call.outgoing);
  }
  contributions[static_cast<std::size_t>(rank())] = outgoing + begin_of(call.n, rank()) * element;
  for_peers([&](int r) { transfer->send(outgoing + begin_of(call.n, r) * element, size_of(call.n, r), call.wire, r); });
  transfer->start();
  transfer->then([contributions = std::move(contributions), mine, call] {
    kernels::sum_ranks(CpuStream{}, call.dtype, call.part_P, call.wire, contributions.data(),
                       static_cast<int>(contributions.size()), mine, call.addends);
    if (call.squares == nullptr) return;
    kernels::sum_squares(CpuStream{}, call.dtype, call.squares, call.part_P, mine, nullptr, call.piece);
  });
  return transfer;
}

std::unique_ptr<Transfer> MessageBackend::all_to_all(const AllToAllCall& call) {
  auto transfer = next_transfer();
  for (const Piece& piece : call.incoming) transfer->receive(piece.begin, piece.bytes, DType::u8, piece.rank);
  for (const Piece& piece : call.outgoing) transfer->send(piece.begin, piece.bytes, DType::u8, piece.rank);
  transfer->start();
  return transfer;
}

}  // namespace lt::comm
