// Reads keys whose value is a table or a list of tables: TOML tables, or JSON text outside a file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/config_schema.h"

namespace lt::config {

// Both throw UsageError, whose hint has `example` where JSON was expected: "<key>: expected tables, got ...".
// Empty text is no tables, and an empty table.
std::vector<Table> tables_from(const Value& value, const std::string& key, const char* example);
Table table_from(const Value& value, const std::string& key, const char* example);

// Reads the fields of one table. Errors name it and the field: "<key>[1].lr_scale: expected ..., got ...".
class TableFields {
 public:
  explicit TableFields(std::string name) : name_(std::move(name)) {}
  TableFields(const std::string& key, std::size_t element);  // of name "<key>[1]"

  std::string text(const std::string& field, const Scalar& value) const;
  // One text, or a list of texts. None may be empty.
  std::vector<std::string> texts(const std::string& field, const Scalar& value) const;
  double number(const std::string& field, const Scalar& value) const;    // at least 0
  double positive(const std::string& field, const Scalar& value) const;  // above 0
  Size count(const std::string& field, const Scalar& value) const;       // from 1 to 2^31 - 1
  [[noreturn]] void fail(const std::string& field, const std::string& expected, const Scalar& value) const;
  // For a field of no known name.
  [[noreturn]] void refuse(const std::string& field, const std::vector<std::string>& known) const;
  // For a field that must be there and is not.
  [[noreturn]] void fail_missing(const std::string& field, const std::string& expected) const;

 private:
  std::string name_;
};

}  // namespace lt::config
