// A file of lines that tolerates a full disk. It counts the lines that could not be written, and adds a line with their
// number once writing works again.
#pragma once

#include <string>

#include "record/line_file.h"
#include "record/lost_rows.h"

namespace lt {

class LossyLines {
 public:
  using LineOfGap = std::string (*)(const LostRows::Gap& gap);
  // Opens the file. Throws DataError on failure; the other functions do not throw.
  LossyLines(const std::string& path, LineOfGap line_of_gap) : file_(path), lost_(path), line_of_gap_(line_of_gap) {}

  void append(Size step, const std::string& line) {
    lost_.attempt(step, [&] {
      // One write for both lines, so that no gap is reported twice.
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
