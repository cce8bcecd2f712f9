// A file of lines that tolerates a full disk. It counts the lines that it could not write, and adds a line with their
// number once it can write again.
#pragma once

#include <string>

#include "libtrain/error.h"
#include "record/line_file.h"
#include "record/lost_rows.h"

namespace lt::recorder {

class LossyLines {
 public:
  using LineOfGap = std::string (*)(const LostRows::Gap& gap);
  // Opens the file. Throws DataError on failure; the other functions do not throw.
  LossyLines(const std::string& path, LineOfGap line_of_gap) : file_(path), lost_(path), line_of_gap_(line_of_gap) {}

  void append(Size step, const std::string& line) {
    lost_.attempt(step, [&] {
      // One write for all lines, so that no line is in the file twice.
      file_.append(kept_ + (lost_.gap() ? line_of_gap_(*lost_.gap()) + "\n" : "") + line);
      kept_.clear();
    });
  }
  // For a line that changes the meaning of earlier lines. If it cannot be written, it is kept and written before the
  // next line.
  void append_or_keep(const std::string& line) {
    try {
      file_.append(kept_ + line);
      kept_.clear();
    } catch (const Error&) {
      kept_ += line + "\n";  // nothing is lost yet; if the next line cannot be written either, that is reported
    }
  }
  void sync(Size step) {
    lost_.attempt(
        step, [&] { file_.sync(); }, 0);
  }

 private:
  LineFile file_;
  LostRows lost_;
  std::string kept_;  // whole lines
  LineOfGap line_of_gap_;
};

}  // namespace lt::recorder
