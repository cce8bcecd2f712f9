// A file of lines that outlives a full disk: what could not be written is counted, and a line of its own says how much
// that was once writing works again.
#pragma once

#include <string>

#include "record/line_file.h"
#include "record/lost_rows.h"

namespace lt {

class LossyLines {
 public:
  using LineOfGap = std::string (*)(const LostRows::Gap& gap);
  // Opens the file; throws DataError where that fails. Nothing throws later.
  LossyLines(const std::string& path, LineOfGap line_of_gap) : file_(path), lost_(path), line_of_gap_(line_of_gap) {}

  void append(Size step, const std::string& line) {
    lost_.attempt(step, [&] {
      // In one write: a gap that was told is not counted again.
      file_.append(lost_.gap() ? line_of_gap_(*lost_.gap()) + "\n" + line : line);
    });
  }
  void sync(Size step) {
    lost_.attempt(
        step, [&] { file_.sync(); }, 0);
  }

 private:
  LineFile file_;
  LostRows lost_;
  LineOfGap line_of_gap_;
};

}  // namespace lt
