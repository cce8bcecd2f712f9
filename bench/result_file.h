// Reads a benchmark's result: its rows, and the fields that identify what a row measures.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/compare.h"
#include "bench/result.h"

namespace lt::bench {

// At most 60 bytes of a value.
std::string short_text(const Json& value);

struct MeasuredRow {
  // The kind of measurement and the fields of kIdentity that the row has, in this order. Rows with equal fields measure
  // the same. Rows of `scaling` have the kind `step`, because both time the same steps.
  std::vector<std::pair<std::string, std::string>> identity;
  RowTimes times;

  // "kernels rope N=4 f32 ranks=2".
  std::string name() const;
};

class ResultFile {
 public:
  // Throws DataError that names file and field if it is not a benchmark's result.
  explicit ResultFile(const std::string& path);

  const std::string& path() const { return path_; }
  Json field(const char* name) const { return document_.value(name, Json()); }
  Json machine(const char* name) const { return field("machine").value(name, Json()); }
  // In file order; no two have the same identity.
  const std::vector<MeasuredRow>& rows() const { return rows_; }
  // Null if no row measures the same as `row`.
  const MeasuredRow* find(const MeasuredRow& row) const;

 private:
  void require(bool holds, const std::string& what, const std::string& expected, const Json& actual) const;
  void add(const Json& row);

  std::string path_;
  Json document_;
  std::vector<MeasuredRow> rows_;
};

// Returns the fields in which the two most similar rows differ: "strategy: ddp in A, zero2 in B; ...". For a shape,
// names only the sizes that differ. Neither list may be empty.
std::string nearest_difference(const std::vector<MeasuredRow>& a, const std::vector<MeasuredRow>& b);

}  // namespace lt::bench
