// The list of notices; any thread may add.
#include "kernels/notices.h"

#include <mutex>
#include <set>
#include <utility>

namespace lt::kernels {
namespace {

std::mutex mutex;
std::set<std::string>& known() {
  static auto& texts = *new std::set<std::string>;
  return texts;
}
std::vector<std::string>& waiting() {
  static auto& texts = *new std::vector<std::string>;
  return texts;
}

}  // namespace

void give_notice(const std::string& text) {
  const std::lock_guard lock(mutex);
  if (known().insert(text).second) waiting().push_back(text);
}

std::vector<std::string> take_notices() {
  const std::lock_guard lock(mutex);
  return std::exchange(waiting(), {});
}

}  // namespace lt::kernels
