// A run without any checkpoint key saves after half an hour: killed after 31 minutes of a clock that jumps, it resumes.
// A program of its own, because it replaces the clock of the process, and its child is killed.
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/checkpoints/checkpoint.h"
#include "libtrain/comm/program.h"
#include "libtrain/nn/models.h"
#include "libtrain/run/trainer.h"
#include "test_main/temp_folder.h"

namespace {

std::atomic<time_t> jumped_s = 0;  // how far the clock is ahead

}  // namespace

// Takes the place of the C library's function for the whole process.
extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (clock == CLOCK_MONOTONIC) time->tv_sec += jumped_s;
  return static_cast<int>(result);
}

namespace {

using namespace lt;

struct Ones : BatchSource {
  Batch next() override {
    const std::vector<std::int32_t> ids(4, 1);
    return {Tensor::from(ids, {1, 4}), Tensor::from(ids, {1, 4})};
  }
  void seek(Size) override {}
  Size tokens() const override { return 0; }
};

// The newest step on disk; -1: none.
Size saved_in(const std::string& run_dir) {
  if (!std::filesystem::exists(run_dir + "/checkpoints")) return -1;
  Size newest = -1;
  for (const checkpoint::Listing& entry : checkpoint::list(run_dir + "/checkpoints", /*checksums=*/false)) {
    if (entry.valid) newest = std::max(newest, entry.step);
  }
  return newest;
}

// Returns the exit code of a run whose callback sees each step.
int train(int argc, char** argv, const std::string& run_dir, Size steps, const std::function<void(Size)>& on_step) {
  return run_program(argc, argv, [&](const World& world) {
    nn::Gpt2 model({.layers = 1, .heads = 1, .width = 4, .vocab = 8, .max_seq = 4});
    Ones batches;
    TrainerOptions options{.train = {.steps = steps, .micro_batch = 1, .device = DeviceType::cpu},
                           .watchdog = {.heartbeat_s = 1e6, .collective_s = 1e6},
                           .run = {.dir = run_dir},
                           .console = [](std::string_view) {}};
    Trainer trainer(world, model, options);
    return static_cast<int>(trainer.train(batches, [&](const TrainedStep& step) { on_step(step.step); }));
  });
}

int require(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "failed: %s\n", what);
  return holds ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const lt_test::TempFolder temp;
  const std::string run_dir = temp / "run";
  const pid_t child = fork();
  if (child == 0) {
    return train(argc, argv, run_dir, 5'000, [&](Size step) {
      if (step == 2 && saved_in(run_dir) >= 0) _exit(1);  // 31 minutes have not passed
      if (step == 2) jumped_s = 31 * 60;
      if (step > 2 && saved_in(run_dir) >= 0) raise(SIGKILL);
    });
  }
  int status = 0;
  waitpid(child, &status, 0);
  const Size saved = saved_in(run_dir);
  std::vector<Size> steps;
  const int code = train(argc, argv, run_dir, saved + 2, [&](Size step) { steps.push_back(step); });
  return require(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the run was killed") |
         require(saved >= 3, "it had saved") | require(code == 0, "the second start ends well") |
         require(steps == std::vector<Size>{saved + 1, saved + 2}, "it continues after the saved step");
}
