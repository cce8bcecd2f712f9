// Keeps and compares rehearsals.
#include "parallel/rehearsals.h"

#include "comm/same_calls.h"

namespace lt::parallel {

std::string Rehearsals::add(const std::string& name, const Batch& batch, const Rehearse& rehearse) {
  std::string key = plan_key(name, batch);
  memory_.prepare(name, batch, [&](const std::string&, const Batch& shapes) {
    Rehearsed found = rehearse(shapes);
    new_.push_back({name, key, std::move(found.calls)});
    forms_[key] = std::move(found.form);
    return std::move(found.plan);
  });
  return key;
}

std::vector<std::string> Rehearsals::compare(const Group& control, const Group* windows) {
  std::vector<std::string> keys;
  try {
    for (const New& added : new_) {
      comm::require_same_calls(added.name, added.calls, control);
      if (windows != nullptr) require_same_places(*memory_.plans().at(added.key), *windows);
      keys.push_back(added.key);
    }
  } catch (...) {
    forget_new();
    throw;
  }
  compared_.insert(compared_.end(), keys.begin(), keys.end());
  new_.clear();
  for (; compared_.size() > kMostPlans; compared_.pop_front()) forget(compared_.front());
  return keys;
}

const PassForm& Rehearsals::use(const std::string& key) {
  if (compared_.back() != key) {
    std::erase(compared_, key);
    compared_.push_back(key);
  }
  return forms_.at(key);
}

void Rehearsals::reserve_for(const std::vector<std::string>& keys, const std::function<void()>& reserve) {
  try {
    reserve();
  } catch (...) {
    for (const std::string& key : keys) std::erase(compared_, key), forget(key);
    memory_.release();
    throw;
  }
}

void Rehearsals::forget_new() {
  for (const New& added : new_) forget(added.key);
  new_.clear();
}

void Rehearsals::forget(const std::string& key) {
  memory_.forget(key);
  forms_.erase(key);
}

}  // namespace lt::parallel
