// Checks of numbers on the command line whose messages say what was expected and found.
#pragma once

#include <unistd.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>
#include <string>

namespace lt::launch {

inline bool parse(const std::string& text, auto& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

inline constexpr long kMostInteger = 2147483647;

inline CLI::Validator integer_from(long least) {
  return {[least](std::string& text) {
            long value = 0;
            const bool known = parse(text, value);
            if (known && value >= least && value <= kMostInteger) return std::string();
            return fmt::format(
                "expected an integer of {}, got \"{}\"",
                known && value > least ? fmt::format("at most {}", kMostInteger) : fmt::format("at least {}", least),
                text);
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

// "80GiB", "500MB", "4096": bytes. Throws CLI::ValidationError.
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

// A file that can be written, said before anything is done for it.
inline CLI::Validator output_file() {
  return {[](std::string& text) {
            namespace fs = std::filesystem;
            std::error_code none;
            if (text.empty()) return std::string("expected the name of a file, got none");
            if (fs::is_directory(text, none)) return fmt::format("expected a file, found the folder {}", text);
            const fs::path parent = fs::path(text).parent_path();
            const std::string folder = parent.empty() ? "." : parent.string();
            if (!fs::is_directory(folder, none))
              return fmt::format("expected a file in a folder that is there, got {}", text);
            if (::access(folder.c_str(), W_OK) != 0)
              return fmt::format("expected a folder that can be written to, found {}", folder);
            return std::string();
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

}  // namespace lt::launch
