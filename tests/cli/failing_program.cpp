// Fails in the way that its argument names. failure_test.py checks the output.
#include <fcntl.h>
#include <unistd.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "libtrain/comm/program.h"
#include "libtrain/error.h"
#include "libtrain/tensor/tensor.h"

namespace {

void fail(const std::string& how, const lt::World& world) {
  const bool second = world.rank() == 1;
  if (how == "all") throw lt::UsageError("ops", "x: expected y, got z", "say y");
  if (how == "memory") throw std::bad_alloc();
  if (how == "program" && second) throw std::runtime_error("no sample 3");
  if (how == "collectively") lt::collectively(world.group(), [] { throw std::runtime_error("no sample 3"); });
  if (how == "thrown") throw 7;
  if (how == "one" && second) throw lt::DataError("data", "b.bin: expected c, found d");
  if (how == "shared") {
    lt::collectively(world.group(), [&] {
      if (second) throw lt::DataError("data", "b.bin: expected c, found d");
    });
  }
  if (how == "broken") {  // MPI fails on rank 1: a message is longer than announced
    const lt::Tensor long_one = lt::Tensor::zeros({64}, lt::DType::f32),
                     short_one = lt::Tensor::zeros({1}, lt::DType::f32);
    const std::vector<lt::Message> none, sent{{1, long_one}}, received{{0, short_one}};
    world.group().all_to_all("x", lt::kCpu, second ? none : sent, second ? received : none, 256).wait();
  }
  if (how == "windows") {  // on all ranks, with a thread that ends the waits of streams for words in windows
    const lt::Group group = world.group(world.device(lt::DeviceType::cuda));
    const lt::PeerMemory memory = group.peer_memory(world.device(lt::DeviceType::cuda));
    if (memory.windows == nullptr) throw lt::UsageError("comm", "no windows: " + memory.why_none);
    group.abandon();
    throw lt::UsageError("ops", "x: expected y, got z");
  }
  if (how == "descriptors" && ::open("/dev/zero", O_RDONLY) <= STDERR_FILENO) throw std::bad_alloc();
  if (how == "number" && second) throw lt::NonFiniteError("step 7: loss: expected a finite number, got nan");
  world.group().barrier();  // the ranks that did not fail wait for the others
}

}  // namespace

int main(int argc, char** argv) {
  return lt::run_program(argc, argv, [&](const lt::World& world) {
    fail(argv[1], world);
    return 0;
  });
}
