// Computes edit distances between names.
#include "config/nearest.h"

#include <algorithm>
#include <utility>

namespace lt::config {
namespace {

// Section and key. Without a section: "" and the whole name.
std::pair<std::string_view, std::string_view> split(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::pair{std::string_view(), name}
                                       : std::pair{name.substr(0, dot), name.substr(dot + 1)};
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last), std::swap(last, now);
  }
  return last[b.size()];
}

int name_distance(std::string_view a, std::string_view b) {
  const auto [section_a, key_a] = split(a);
  const auto [section_b, key_b] = split(b);
  constexpr int kWrongSection = 2;
  return std::min(kWrongSection, edit_distance(section_a, section_b)) + edit_distance(key_a, key_b);
}

bool is_near(std::string_view name, std::string_view candidate) {
  const std::string_view key = split(name).second;
  return 3 * edit_distance(key, split(candidate).second) <= static_cast<int>(key.size());
}

std::string nearest_hint(std::string_view name, const std::vector<std::string>& candidates, const std::string& list) {
  const std::string& meant = nearest(name, candidates);
  return is_near(name, meant) ? "did you mean " + meant + "?" : list + " lists them; the nearest is " + meant;
}

const std::string& nearest(std::string_view name, const std::vector<std::string>& candidates) {
  return *std::min_element(candidates.begin(), candidates.end(), [&](const std::string& a, const std::string& b) {
    return name_distance(name, a) < name_distance(name, b);
  });
}

}  // namespace lt::config
