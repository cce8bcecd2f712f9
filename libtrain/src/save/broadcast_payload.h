// Broadcasts the payload of an in-memory copy from the rank that holds it to a whole group.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "checkpoints/memory/memory_copy.h"
#include "libtrain/comm/group.h"
#include "libtrain/error.h"

namespace lt::saver {

// On every rank, calls take(at, piece) for each piece in payload order; `at` is the piece's offset in bytes. All ranks
// of `group` must call it with the same `bytes`. `copy` must be null on all ranks except `root`. Throws InternalError
// if a piece has the wrong size.
template <class Take>
void broadcast_payload(const Group& group, int root, const checkpoint::MemoryCopy* copy, Size bytes, Take&& take) {
  constexpr Size kPiece = Size{4} << 20;  // bytes per message
  for (Size at = 0; at < bytes; at += kPiece) {
    const auto size = static_cast<std::size_t>(std::min(kPiece, bytes - at));
    std::string piece;
    if (copy != nullptr) piece.assign(reinterpret_cast<const char*>(copy->payload() + at), size);
    piece = group.broadcast_bytes(piece, root);
    if (piece.size() != size) {
      throw InternalError("checkpoint",
                          fmt::format("copy in memory: expected {} bytes at {}, got {}", size, at, piece.size()));
    }
    take(at, std::as_bytes(std::span(piece.data(), size)));
  }
}

}  // namespace lt::saver
