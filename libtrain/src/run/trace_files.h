// Writes the files of a trace while the ranks' events arrive, in <run.dir>/trace: rank-R.json for each rank R, and
// all.json for all ranks. Moves the trace of an earlier start to <run.dir>/trace/old-K, K = 1, 2, ...
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "comm/value_exchange.h"
#include "io/file.h"
#include "libtrain/comm/group.h"
#include "libtrain/error.h"
#include "record/run_log.h"

namespace lt::run {

// For the rank that writes the files. Keeps a failure until commit(), because the other ranks continue to send.
class TraceFiles {
 public:
  explicit TraceFiles(const recorder::RunLog& log);
  // Adds the next piece of the events of `rank`. Call it for ranks 0, 1, ... in this order, at least once for each.
  void add(int rank, std::string_view piece);
  // Gives the files their final names and returns the path of all.json. Throws DataError if anything failed.
  std::string commit();

 private:
  template <class F>
  void attempt(F&& write);
  void finish_rank();

  const recorder::RunLog& log_;
  std::optional<io::PendingFile> all_, of_rank_;
  int rank_ = -1;
  std::optional<DataError> failure_;
};

// Passes each rank's `mine` to take(rank, piece) on rank 0, in the order of ranks and in pieces of at most 1 MiB. No
// rank holds more than one piece of another rank's data. All ranks of `group` must call it.
template <class F>
void gather_in_pieces(const Group& group, const std::string& mine, F&& take) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (int rank = 0; rank < group.size(); ++rank) {
    const bool is_mine = rank == group.rank();
    const std::size_t bytes = comm::broadcast_value(group, mine.size(), rank);
    for (std::size_t at = 0; at < bytes; at += kPiece) {
      const std::string piece = group.broadcast_bytes(is_mine ? mine.substr(at, kPiece) : "", rank);
      if (group.rank() == 0) take(rank, piece);
    }
  }
}

}  // namespace lt::run
