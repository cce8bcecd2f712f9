// Checks of numbers on the command line whose messages say what was expected and found.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string>

namespace lt::launch {

inline bool parse(const std::string& text, auto& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

inline CLI::Validator integer_from(long least) {
  return {[least](std::string& text) {
            long value = 0;
            if (parse(text, value) && value >= least) return std::string();
            return fmt::format("expected an integer of at least {}, got \"{}\"", least, text);
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

}  // namespace lt::launch
