// The checks of a complete configuration, and the configuration keys that errors of components name.
#include "config/config_layers.h"
#include "config/derive.h"
#include "config/origin.h"
#include "libtrain/config/resolved.h"
#include "test_main/catch.h"

using lt::UsageError;
using lt_test::from_file;
using lt_test::refusal;

TEST_CASE("config: each check of a complete configuration refuses and names the key", "[config]") {
  struct Case {
    const char *toml, *message;
    lt::DeviceType device = lt::DeviceType::cpu;
  };
  const auto cuda = lt::DeviceType::cuda;
  for (const auto& [toml, message, device] : std::initializer_list<Case>{
           {"[parallel]\nbackend = \"nccl\"", "parallel.backend: expected auto or mpi on cpu, got nccl"},
           {"[train]\ncuda_graph = true", "train.cuda_graph: expected false on cpu, got true"},
           {"[train]\ncuda_graph = true\n[parallel]\nbackend = \"mpi\"",
            "train.cuda_graph: expected false with parallel.backend=mpi, where the host takes part, got true", cuda},
           {"[train]\ntf32 = true\ndtype = \"bf16\"",
            "train.tf32: expected false without train.dtype=f32 on cuda, whose matmuls it rounds, got true with bf16 "
            "on "
            "cuda",
            cuda},
           {"[train]\ndtype = \"fp8\"\n[model]\nlora = {rank = 2}",
            "train.dtype: expected bf16, f16 or f32 with adapters (model.lora), got fp8", cuda},
           {"[record]\nprofile_steps = 2",
            "record.profile_steps: expected 0 without train.device=cuda, whose kernels it records, got 2 on cpu"},
           {"[train]\nalgorithms = \"h200.txt\"",
            "train.algorithms: expected none on cpu, because only GPUs have tables of algorithms, got h200.txt"},
           {"[optim]\nlr = 1e-3\nmin_lr = 2e-3", "optim.min_lr: expected at most optim.lr 0.001, got 0.002"},
           {"[optim]\nbeta2 = 0.99999999999", "optim.beta2: expected a number below 1 in f32, got 0.99999999999"},
           {"[train]\nz_loss = 1e-60", "train.z_loss: expected a number that f32 does not round to 0, got 1e-60"},
           {"[[optim.groups]]\nmatch = \"*\"\nlr_scale = 1e300",
            "optim.groups: expected as lr_scale a number that f32 does not round to infinity, got 1e+300"},
           {"[optim]\nmaster = \"none\"",
            "optim.master: expected f32, unless train.dtype is bf16 or fp8, got none with f32"},
           {"[data]\ntrain = \"a.bin\"\nsources = [{files = \"b.bin\"}]",
            "data.train: expected none with data.sources, got a.bin"},
           {"[data]\nepochs = 2\n[train]\nsteps = 5",
            "train.steps: expected none with data.epochs=2, which it follows from, got 5"},
           {"[checkpoint]\nbest = true",
            "checkpoint.best: expected false without train.eval_every, whose loss says which one is best, got true"},
       }) {
    INFO(toml);
    const lt::Config config = from_file(toml);
    CHECK(refusal([&, on = device] { lt::config::complete(config, 1, on); }).message.starts_with(message));
  }
}

TEST_CASE("errors: a component's field becomes its key, with the layer that set it, once", "[config]") {
  const lt::Config config = lt::load_config("", {{"parallel.shard_size", "3"}, {"model.freeze", "a*"}});
  const auto named = [&](const UsageError& error) {
    return refusal(
        [&] { lt::config::name_keys(config, [&] { lt::config::name_keys(config, [&] { throw error; }); }); });
  };
  CHECK(named({"engine", "shard_size", "a divisor", "3"}).message ==
        "parallel.shard_size: expected a divisor, got 3 (from the command line)");
  CHECK(named({"engine", "accum", "at least 1", "0"}).message == "train.accum: expected at least 1, got 0");
  CHECK(named({"engine", "fp8", "another GPU", "this"}).message == "train.dtype: expected another GPU, got this");
  CHECK(named({"optim", "frozen", "some", "none"}).message ==
        "model.freeze: expected some, got none (from the command line)");
  CHECK(named({"model", "width", "an even number", "3"}) ==
        lt_test::Refusal{"model.width: expected an even number, got 3",
                         "`ltrain plan --model.preset=NAME` prints the shape of a preset"});
  for (const UsageError& other : {UsageError("engine", "units", "all", "one"), UsageError("engine", "no field")}) {
    try {
      lt::config::name_keys(config, [&] { throw other; });
      FAIL("no error was thrown");
    } catch (const UsageError& error) {
      CHECK(error.component() == "engine");
      CHECK(std::string(error.what()) == other.what());
    }
  }
}
