// Checks names early, so that no save fails at the end of a run.
#include "parallel/named_units.h"

#include <set>
#include <string>

#include "libtrain/error.h"

namespace lt::parallel {
namespace {

// Names become links of an HDF5 file.
bool can_be_saved(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

}  // namespace

void require_named_units(const nn::Model& model) {
  std::set<std::string> names;
  std::set<const nn::Parameter*> in_units;
  for (const auto& [name, parameter] : model.all_parameters()) {
    if (!can_be_saved(name)) {
      throw UsageError("engine", "parameter '" + name +
                                     "': expected a name that is not empty, \".\" or \"..\", without slashes and NUL");
    }
    if (!names.insert(name).second) {
      throw UsageError("engine", "parameter " + name + ": expected a name of its own, found two of this name");
    }
    in_units.insert(parameter);
  }
  for (const auto& [name, parameter] : model.parameters()) {
    if (in_units.contains(parameter)) continue;
    throw UsageError("engine", "parameter " + name + ": expected it in a unit of the model, found it outside of all",
                     "add_unit() and add_block() make units");
  }
}

}  // namespace lt::parallel
