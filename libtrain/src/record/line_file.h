// An append-only file of whole lines: metrics.jsonl, log.txt.
#pragma once

#include <string>

namespace lt {

// Each line is written whole by one write(2). All functions throw DataError.
class LineFile {
 public:
  // Cuts a torn last line off. A new file is in its folder durably.
  explicit LineFile(const std::string& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  void append(const std::string& line);  // adds the newline
  void sync();                           // to disk

 private:
  std::string path_;
  int fd_;
};

}  // namespace lt
