// Reads keys whose value is a table or a list of tables: TOML tables in a file, JSON text on the command line or in the
// environment.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config_schema.h"

namespace lt::config {

// Returns nullopt unless the whole text is a number of type T.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional<T>(value) : std::nullopt;
}

// The parts between the commas, which may be empty. Empty text has no parts.
std::vector<std::string> split_at_commas(const std::string& text);

// True if the text begins with [ or {, which means JSON.
bool is_json(std::string_view text);

// Both throw UsageError: "<key>: expected tables, got ...". If JSON was expected, the hint shows `example`. Empty text
// yields an empty list or an empty table.
std::vector<Table> tables_from(const Value& value, const std::string& key, const char* example);
Table table_from(const Value& value, const std::string& key, const char* example);

// Reads the fields of one table. All functions throw UsageError that names the table and the field, for example
// "<key>[1].lr_scale: expected ..., got ...".
class TableFields {
 public:
  explicit TableFields(std::string name) : name_(std::move(name)) {}
  TableFields(const std::string& key, std::size_t element);  // name "<key>[<element>]"

  std::string text(const std::string& field, const Scalar& value) const;
  // One text, or a list of at least one text. No text may be empty.
  std::vector<std::string> texts(const std::string& field, const Scalar& value) const;
  double number(const std::string& field, const Scalar& value) const;    // at least 0
  double positive(const std::string& field, const Scalar& value) const;  // above 0
  Size count(const std::string& field, const Scalar& value) const;       // from 1 to 2^31 - 1
  [[noreturn]] void fail(const std::string& field, const std::string& expected, const Scalar& value) const;
  // For a field with an unknown name.
  [[noreturn]] void refuse(const std::string& field, const std::vector<std::string>& known) const;
  // For a missing field.
  [[noreturn]] void fail_missing(const std::string& field, const std::string& expected) const;

 private:
  std::string name_;
};

}  // namespace lt::config
