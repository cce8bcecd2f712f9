// The command line that started a run, launcher included, over made-up processes.
#include "run/whole_command.h"

#include <map>

#include "test_main/catch.h"

using namespace lt;
using Words = std::vector<std::string>;

namespace {

// Processes by id, each the child of the one before it in the list, and the variables of the last, which is the rank.
struct Fake {
  std::map<int, Words> words;
  std::map<std::string, std::string> variables;
  std::map<int, std::string> folders = {};
  std::string settings = {};

  run::WholeCommand whole(const std::string& source, int ranks = 2) const {
    LaunchInfo info;
    info.source = source, info.size = info.local_size = ranks;
    const run::ProcessView view{
        .words = [this](int pid) { return words.contains(pid) ? words.at(pid) : Words(); },
        .parent =
            [this](int pid) {
              const auto found = words.find(pid);
              return found == words.begin() ? 1 : std::prev(found)->first;
            },
        .folder = [this](int pid) { return folders.contains(pid) ? folders.at(pid) : std::string("/data/me"); },
        .variable =
            [this](const std::string& name) { return variables.contains(name) ? variables.at(name) : std::string(); }};
    return run::whole_command(info, words.rbegin()->first, view, settings);
  }
};

const Words kRank{"build/ltrain", "train", "--config", "my run.toml"};
const std::string kQuoted = "build/ltrain train --config 'my run.toml'";

}  // namespace

TEST_CASE("command: a rank alone has its own words", "[train]") {
  const Fake fake{{{10, {"mpirun", "-n", "2", "make"}}, {20, {"bash"}}, {30, kRank}}, {}};
  CHECK(fake.whole("alone", 1).text == kQuoted);
  CHECK(fake.whole("alone", 1).program == "build/ltrain");
  CHECK(fake.whole("torchrun variables").text == kQuoted);  // set by hand
}

TEST_CASE("command: variables that set keys come right before it", "[train]") {
  const std::string steps = "LTRAIN_TRAIN_STEPS=9 ";
  const Fake alone{{{30, kRank}}, {}, {}, steps};
  CHECK(alone.whole("alone", 1).text == steps + kQuoted);
  const Fake launched{{{30, kRank}}, {{run::kCommandVariable, "ltrain launch -n 2 -- train"}}, {}, steps};
  CHECK(launched.whole("Open MPI").text == steps + "ltrain launch -n 2 -- train");
}

TEST_CASE("command: mpirun is found above shells, and passes no secrets on", "[train]") {
  Words mpirun{"/usr/bin/mpirun.openmpi", "-n", "2",           "-x", "KEY=secret", "-x", "NCCL_DEBUG=INFO", "-x",
               "LTRAIN_TOKEN=secret",     "-x", "LTRAIN_FAULT"};
  mpirun.insert(mpirun.end(), kRank.begin(), kRank.end());
  const Fake fake{{{5, {"mpirun", "outer"}}, {10, mpirun}, {20, {"bash", "-c", "x"}}, {30, kRank}}, {}};
  CHECK(fake.whole("Open MPI").text ==
        "/usr/bin/mpirun.openmpi -n 2 -x KEY -x NCCL_DEBUG=INFO -x LTRAIN_TOKEN -x LTRAIN_FAULT " + kQuoted);
  CHECK(fake.whole("Open MPI").program == "build/ltrain");
  const Fake elsewhere{{{10, {"orted", "-mca", "x"}}, {30, kRank}}, {}};
  CHECK(elsewhere.whole("Open MPI", 16).text == "mpirun -n 16 " + kQuoted);
}

TEST_CASE("command: values of variables before the program may be secrets", "[train]") {
  const auto text = [](Words words, const Words& own) {
    words.insert(words.begin(), "mpirun");
    words.insert(words.end(), own.begin(), own.end());
    return Fake{{{10, words}, {30, own}}, {}}.whole("Open MPI").text;
  };
  const Words own{"own", "train", "--batches.path=A=B"};
  const std::string end = "own train --batches.path=A=B";
  CHECK(text({"-n", "2", "env", "-i", "KEY=secret", "OMP_NUM_THREADS=1", "key=secret"}, own) ==
        "mpirun -n 2 env -i OMP_NUM_THREADS=1 " + end);
  CHECK(text({"--mca", "mca_base_env_list", "KEY=secret;NCCL_DEBUG=INFO;HOME;TOKEN=secret=x;"}, own) ==
        "mpirun --mca mca_base_env_list 'KEY;NCCL_DEBUG=INFO;HOME;TOKEN;' " + end);
  CHECK(text({"--mca", "mca_base_env_list", "NCCL_DEBUG=INFO+KEY=secret"}, own) ==
        "mpirun --mca mca_base_env_list NCCL_DEBUG " + end);
  CHECK(text({"-x", "OMPI_MCA_mca_base_env_list=KEY=secret", "--map-by", "ppr:2:node:PE=4"}, own) ==
        "mpirun -x OMPI_MCA_mca_base_env_list --map-by ppr:2:node:PE=4 " + end);
  CHECK(text({"apptainer", "exec", "--env", "KEY=secret", "--env=KEY=secret", "a.sif"}, own) ==
        "mpirun apptainer exec --env KEY --env=KEY a.sif " + end);
}

TEST_CASE("command: a shell's script is left out, because options behind it would not reach the rank", "[train]") {
  const auto whole = [](const Words& mpirun, const std::string& folder) {
    Fake fake{{{10, mpirun}, {30, kRank}}, {}};
    fake.folders[30] = folder;
    return fake.whole("Open MPI").text;
  };
  const Words script{"mpirun",     "--hostfile", "h",  "env",
                     "KEY=secret", "/bin/sh",    "-c", "export K=secret; ltrain train"};
  CHECK(whole(script, "/data/me") == "mpirun --hostfile h env " + kQuoted);
  CHECK(whole(script, "/data/me/my runs") == "cd '/data/me/my runs' && mpirun --hostfile h env " + kQuoted);
  CHECK(whole({"mpirun", "-n", "2", "./wrapper.sh"}, "/data/me") == "mpirun -n 2 " + kQuoted);
  CHECK(whole({"mpirun", "--hostfile", "h", "./wrapper"}, "/data/me") == "mpirun -n 2 " + kQuoted);
}

TEST_CASE("command: which commands take options of train at their ends", "[train]") {
  const auto takes_options = [](const Words& own) { return Fake{{{30, own}}, {}}.whole("alone").takes_options; };
  CHECK(takes_options(kRank));
  CHECK_FALSE(takes_options({"./tiny", "3"}));
  CHECK_FALSE(takes_options({"./tiny", "--note=ltrain train"}));
  CHECK_FALSE(takes_options({"ltrain", "train", "--", "x"}));
}

TEST_CASE("command: torchrun is named without its interpreter", "[train]") {
  Words torchrun{"/usr/bin/python3", "/usr/local/bin/torchrun", "--nproc_per_node=2", "--no-python"};
  torchrun.insert(torchrun.end(), kRank.begin(), kRank.end());
  const Fake script{{{9, {"sshd"}}, {10, torchrun}, {30, kRank}}, {}};
  CHECK(script.whole("torchrun variables").text == "/usr/local/bin/torchrun --nproc_per_node=2 --no-python " + kQuoted);
  Words module{"python3", "-m", "torch.distributed.run", "--rdzv_conf", "timeout=9", "--no-python"};
  module.insert(module.end(), kRank.begin(), kRank.end());
  CHECK(Fake{{{10, module}, {30, kRank}}, {}}.whole("torchrun variables").text ==
        "python3 -m torch.distributed.run --rdzv_conf timeout=9 --no-python " + kQuoted);
  const Fake wrapped{{{10, {"torchrun", "--nproc_per_node=2", "wrapper.py"}}, {30, kRank}}, {}};
  CHECK(wrapped.whole("torchrun variables").text == "torchrun --nproc_per_node=2 --no-python " + kQuoted);
}

TEST_CASE("command: that of srun is made from what it tells its tasks", "[train]") {
  Fake fake{{{10, {"slurmstepd: [7.0]"}}, {30, kRank}}, {}};
  CHECK(fake.whole("Slurm", 4).text == "srun -n 4 " + kQuoted);
  fake.variables = {{"SLURM_STEP_NUM_NODES", "2"}, {"PMIX_RANK", "0"}, {"SLURM_CPUS_PER_TASK", "8"}};
  CHECK(fake.whole("Slurm", 4).text == "srun -n 4 -N 2 --mpi=pmix --cpus-per-task=8 " + kQuoted);
}

TEST_CASE("command: ltrain launch tells its own", "[train]") {
  const std::string launch = "ltrain launch -n 2 -- train --config 'my run.toml'";
  Fake fake{{{10, {"mpirun", "-n", "2"}}, {30, kRank}}, {{"LTRAIN_COMMAND", launch}}};
  CHECK(fake.whole("Open MPI").text == launch);
  CHECK(fake.whole("Open MPI").takes_options);
  fake.variables["LTRAIN_COMMAND"] = "ltrain launch -n 2 train";  // options of train must follow --
  CHECK_FALSE(fake.whole("Open MPI").takes_options);
}
