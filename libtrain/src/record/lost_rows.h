// Tolerates failed writes of a run's records: it reports them, and training continues.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "libtrain/dtype.h"
#include "libtrain/error.h"

namespace lt::recorder {

// Counts the lost rows of one file or folder. Reports the first failure on standard error, counts later ones, and
// reports the total at the end.
class LostRows {
 public:
  // The rows lost since writing last worked.
  struct Gap {
    Size rows = 0, first_step = 0, last_step = 0;
  };

  explicit LostRows(std::string file) : file_(std::move(file)) {}
  ~LostRows();
  LostRows(const LostRows&) = delete;
  LostRows& operator=(const LostRows&) = delete;

  // Runs `write`, which records `rows` rows of `step`, and catches its Errors. With 0 rows, as when syncing a file, a
  // failure loses no rows and a success does not end the gap.
  template <class F>
  void attempt(Size step, F&& write, Size rows = 1) {
    try {
      write();
    } catch (const Error& error) {
      return failed(error, step, rows);
    }
    if (rows > 0) gap_.reset();
  }
  // The current gap; nullopt if there is none. Still set during the first `write` that succeeds after it.
  const std::optional<Gap>& gap() const { return gap_; }

 private:
  void failed(const Error& error, Size step, Size rows);

  std::string file_;
  std::optional<Gap> gap_, all_;
  bool is_told_ = false, is_sync_told_ = false;
};

}  // namespace lt::recorder
