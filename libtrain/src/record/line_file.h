// An append-only file of whole lines: metrics.jsonl, log.txt, metrics.csv.
#pragma once

#include <string>

#include "io/file.h"

namespace lt::recorder {

// Each line is written with one write(2). All functions throw DataError. If append() throws, no part of the line is in
// the file.
class LineFile {
 public:
  // Cuts off a torn last line. Makes a new file's name durable.
  explicit LineFile(const std::string& path);

  void append(const std::string& line) { file_.append(line + "\n"); }
  void sync() { file_.sync(); }

 private:
  io::AppendFile file_;
};

}  // namespace lt::recorder
