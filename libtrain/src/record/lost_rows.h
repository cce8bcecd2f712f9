// What a run records of itself may be lost: a write that fails is told, and training goes on.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "libtrain/dtype.h"
#include "libtrain/error.h"

namespace lt {

// Counts what one file or folder has lost. The first failure is told on standard error, later ones are counted, and the
// sum is told at the end.
class LostRows {
 public:
  // What was not written since writing last worked.
  struct Gap {
    Size rows = 0, first_step = 0, last_step = 0;
  };

  explicit LostRows(std::string file) : file_(std::move(file)) {}
  ~LostRows();
  LostRows(const LostRows&) = delete;
  LostRows& operator=(const LostRows&) = delete;

  // Runs `write`, which records `rows` rows of `step`; an Error that it throws ends here. With 0 rows, as where a file
  // is brought to disk, nothing is lost by a failure and nothing is proven by a success.
  template <class F>
  void attempt(Size step, F&& write, Size rows = 1) {
    try {
      write();
    } catch (const Error& error) {
      return failed(error, step, rows);
    }
    if (rows > 0) gap_.reset();
  }
  // Also within the `write` that works again.
  const std::optional<Gap>& gap() const { return gap_; }

 private:
  void failed(const Error& error, Size step, Size rows);

  std::string file_;
  std::optional<Gap> gap_, all_;
  bool is_told_ = false;
};

}  // namespace lt
