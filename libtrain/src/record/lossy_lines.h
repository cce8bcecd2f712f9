// A file of lines that outlives a full disk: what could not be written is counted, and a line of its own says how much
// that was once writing works again.
#pragma once

#include <string>

#include "record/line_file.h"
#include "record/losses.h"

namespace lt {

class LossyLines {
 public:
  using LineOfGap = std::string (*)(const Losses::Gap& gap);
  // Opens the file; throws DataError where that fails. Nothing throws later.
  LossyLines(const std::string& path, LineOfGap line_of_gap) : file_(path), losses_(path), line_of_gap_(line_of_gap) {}

  void append(Size step, const std::string& line) {
    losses_.attempt(step, [&] {
      // In one write: a gap that was told is not counted again.
      file_.append(losses_.gap() ? line_of_gap_(*losses_.gap()) + "\n" + line : line);
    });
  }
  void sync(Size step) {
    losses_.attempt(
        step, [&] { file_.sync(); }, 0);
  }

 private:
  LineFile file_;
  Losses losses_;
  LineOfGap line_of_gap_;
};

}  // namespace lt
