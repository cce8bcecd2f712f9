// The files of a trace as the ranks' events come: rank-R.json of each and all.json of all, in <run.dir>/trace.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/pending_file.h"
#include "libtrain/comm/group.h"
#include "libtrain/error.h"
#include "train/run_log.h"

namespace lt {

// The files on the rank that writes them. A failure is kept for commit(), since other ranks go on sending.
class TraceFiles {
 public:
  explicit TraceFiles(const RunLog& log);
  // The next piece of the events of `rank`: of 0 first, then of 1, ...; each rank has one.
  void add(int rank, std::string_view piece);
  // Gives the files their names; returns that of all.json. Throws DataError where anything failed.
  std::string commit();

 private:
  template <class F>
  void attempt(F&& write);
  void finish_rank();

  const RunLog& log_;
  std::optional<PendingFile> all_, of_rank_;
  int rank_ = -1;
  std::optional<DataError> failure_;
};

// Hands each rank's `mine`, in the order of ranks, to take(rank, piece) on rank 0, in pieces of at most a mebibyte; no
// rank holds more of another's. All ranks call it.
template <class F>
void gather_in_pieces(const Group& group, const std::string& mine, F&& take) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  for (int rank = 0; rank < group.size(); ++rank) {
    const bool is_mine = rank == group.rank();
    const std::size_t bytes = std::stoull(group.broadcast_bytes(std::to_string(mine.size()), rank));
    for (std::size_t at = 0; at < bytes; at += kPiece) {
      const std::string piece = group.broadcast_bytes(is_mine ? mine.substr(at, kPiece) : "", rank);
      if (group.rank() == 0) take(rank, piece);
    }
  }
}

}  // namespace lt
