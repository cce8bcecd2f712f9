// Checks numbers and lists of them on the command line, with messages that name the expected and the actual value.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libtrain/dtype.h"

namespace lt::launch {

inline bool parse(const std::string& text, auto& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

inline constexpr long kMostInteger = 2147483647;

inline CLI::Validator integer_from(long least, long most = kMostInteger) {
  return {[least, most](std::string& text) {
            long value = 0;
            if (parse(text, value) && value >= least && value <= most) return std::string();
            return fmt::format("expected an integer from {} to {}, got \"{}\"", least, most, text);
          },
          ""};
}

inline CLI::Validator number_between(double least, double most) {
  return {[least, most](std::string& text) {
            double value = 0;
            if (parse(text, value) && value >= least && value <= most) return std::string();
            return fmt::format("expected a number from {} to {}, got \"{}\"", least, most, text);
          },
          ""};
}

inline CLI::Validator number_above(double bound, double most) {
  return {[bound, most](std::string& text) {
            double value = 0;
            if (parse(text, value) && value > bound && value <= most) return std::string();
            return fmt::format("expected a number above {} and at most {}, got \"{}\"", bound, most, text);
          },
          ""};
}

// Parses bytes: "80GiB", "500MB", "4096". Throws CLI::ValidationError.
inline Size bytes_of(const std::string& text) {
  constexpr double kMost = 0x1p60;
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},      {"B", 1},        {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  double value = 0;
  for (const auto& [name, bytes] : kUnits) {
    if (unit == name && parse(text.substr(0, digits), value) && value * bytes >= 1 && value * bytes <= kMost) {
      return static_cast<Size>(value * bytes);
    }
  }
  throw CLI::ValidationError(fmt::format("expected bytes such as 80GiB or 500MB, at most 2^60, got \"{}\"", text));
}

// For memory sizes. Requires a unit, because a bare number is more often a forgotten unit than a number of bytes.
inline CLI::Validator byte_size_with_unit() {
  return {[](std::string& text) {
            try {
              bytes_of(text);
            } catch (const CLI::ValidationError& error) {
              return std::string(error.what());
            }
            if (text.find_first_not_of("0123456789.") != std::string::npos) return std::string();
            return fmt::format("expected a unit, as in {0}GiB or {0}MB, got \"{0}\"", text);
          },
          ""};
}

inline CLI::Validator byte_size() {
  return {[](std::string& text) {
            try {
              bytes_of(text);
              return std::string();
            } catch (const CLI::ValidationError& error) {
              return std::string(error.what());
            }
          },
          ""};
}

// Splits lists such as "2,4,8" at their commas. Keeps empty parts, which CLI11's own delimiter would drop.
inline std::vector<std::string> parts_of(const std::vector<std::string>& lists) {
  std::vector<std::string> parts;
  for (const std::string& list : lists) {
    parts.emplace_back();
    for (const char c : list) {
      if (c == ',') {
        parts.emplace_back();
      } else {
        parts.back() += c;
      }
    }
  }
  return parts;
}

inline CLI::Validator list_of(const CLI::Validator& check) {
  return {[check](std::string& list) {
            for (std::string& part : parts_of({list})) {
              if (std::string error = check(part); !error.empty()) return error;
            }
            return std::string();
          },
          ""};
}

}  // namespace lt::launch
