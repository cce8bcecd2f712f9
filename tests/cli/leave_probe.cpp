// Ends as `ltrain` does after the failure that the argument names; leave_test.py looks at what is said.
#include <optional>
#include <string>

#include "leave.h"
#include "libtrain/group.h"

namespace {

void fail(const std::string& how, const lt::World& world) {
  const bool second = world.rank() == 1;
  if (how == "all") throw lt::UsageError("ops", "x: expected y, got z", "say y");
  if (how == "memory") throw std::bad_alloc();
  if (how == "one" && second) throw lt::DataError("data", "b.bin: expected c, found d");
  if (how == "shared") {
    lt::collectively(world.group(), [&] {
      if (second) throw lt::DataError("data", "b.bin: expected c, found d");
    });
  }
  if (how == "number" && second) throw lt::NonFiniteError("step 7: loss: expected a finite number, got nan");
  world.group().barrier();  // the ranks that did not fail wait for the others
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<lt::World> world = lt::init(argc, argv);
  try {
    fail(argv[1], *world);
  } catch (...) {
    return lt::launch::leave(*world, std::current_exception());
  }
  return 0;
}
