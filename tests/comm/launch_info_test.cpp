// Which environment variables determine the ranks, and which values are refused.
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/tcp/tcp_world.h"
#include "libtrain/comm/world.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

namespace {

using Variables = std::map<std::string, std::string>;

// Sets exactly these launcher variables for its lifetime.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (const char* name : {"OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMIX_NAMESPACE",
                             "PMIX_RANK",
                             "PMI_RANK",
                             "PMI_FD",
                             "SLURM_STEP_ID",
                             "SLURM_PROCID",
                             "SLURM_NTASKS",
                             "SLURM_LOCALID",
                             "SLURM_NODEID",
                             "SLURM_STEP_TASKS_PER_NODE",
                             "SLURM_TASKS_PER_NODE",
                             "RANK",
                             "WORLD_SIZE",
                             "LOCAL_RANK",
                             "LOCAL_WORLD_SIZE",
                             "MASTER_ADDR",
                             "MASTER_PORT"}) {
      const char* value = std::getenv(name);
      saved_[name] = value == nullptr ? std::nullopt : std::optional<std::string>(value);
      unsetenv(name);
    }
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : saved_) {
      unsetenv(name.c_str());
      if (value) setenv(name.c_str(), value->c_str(), 1);
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> saved_;
};

Variables merged(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "5"},
                            {"OMPI_COMM_WORLD_SIZE", "6"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kSlurm = {{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "9"}, {"SLURM_NTASKS", "11"},
                          {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}};
const Variables kTorchrun = {{"RANK", "3"},           {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},     {"LOCAL_WORLD_SIZE", "2"},
                             {"MASTER_ADDR", "host"}, {"MASTER_PORT", "29500"}};

lt::LaunchInfo discover(const Variables& variables) {
  const Environment environment(variables);
  return lt::discover_ranks();
}

void check(const lt::LaunchInfo& info, const std::string& source, int rank, int size, int local_rank, int local_size) {
  CHECK(info.source == source);
  CHECK(info.rank == rank);
  CHECK(info.size == size);
  CHECK(info.local_rank == local_rank);
  CHECK(info.local_size == local_size);
}

std::string message_of(const Variables& variables) {
  try {
    discover(variables);
  } catch (const lt::CommError& error) {
    CHECK(error.code() == lt::ExitCode::communication);
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("discover_ranks: each launcher, and the first complete one wins", "[comm]") {
  check(discover({}), "alone", 0, 1, 0, 1);
  check(discover(kOpenMpi), "Open MPI", 5, 6, 1, 2);
  check(discover(kSlurm), "Slurm", 9, 11, 1, 3);
  check(discover(kTorchrun), "torchrun variables", 3, 4, 1, 2);
  check(discover(merged(merged(kTorchrun, kSlurm), kOpenMpi)), "Open MPI", 5, 6, 1, 2);
  check(discover(merged(kTorchrun, kSlurm)), "Slurm", 9, 11, 1, 3);

  Variables incomplete = merged(kSlurm, kOpenMpi);
  incomplete.erase("OMPI_COMM_WORLD_SIZE");
  check(discover(incomplete), "Slurm", 9, 11, 1, 3);
  incomplete = merged(kTorchrun, kSlurm);
  incomplete.erase("MASTER_PORT");
  check(discover(incomplete), "Slurm", 9, 11, 1, 3);
}

TEST_CASE("discover_ranks: several ranks of which a variable is missing are no run of one", "[comm]") {
  const auto without = [](const std::vector<std::string>& names, const std::string& size = "4") {
    Variables variables = merged(kTorchrun, {{"WORLD_SIZE", size}});
    for (const std::string& name : names) variables.erase(name);
    return variables;
  };
  CHECK(message_of(without({"RANK"})) == "WORLD_SIZE=4: expected RANK too, which is not set");
  CHECK(message_of(without({"MASTER_PORT"})) == "WORLD_SIZE=4: expected MASTER_PORT too, which is not set");
  CHECK(message_of(without({"RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})) ==
        "WORLD_SIZE=4: expected RANK, MASTER_ADDR, MASTER_PORT too, which are not set");
  CHECK(message_of({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}) ==
        "OMPI_COMM_WORLD_SIZE=2: expected OMPI_COMM_WORLD_RANK too, which is not set");
  check(discover(without({"RANK"}, "1")), "alone", 0, 1, 0, 1);
  CHECK(message_of(merged(without({"WORLD_SIZE"}), {{"RANK", "1"}})) ==
        "RANK=1: expected WORLD_SIZE too, which is not set");
  CHECK(message_of({{"OMPI_COMM_WORLD_RANK", "1"}}).starts_with("OMPI_COMM_WORLD_RANK=1: expected "));
  check(discover({{"RANK", "1"}}), "alone", 0, 1, 0, 1);
  for (const char* other : {"0", "captain"}) {
    check(discover(merged(without({"WORLD_SIZE"}), {{"RANK", other}})), "alone", 0, 1, 0, 1);
  }
}

TEST_CASE("discover_ranks: LOCAL_RANK follows from the ranks of a host, and those from the hosts", "[comm]") {
  Variables variables = kTorchrun;
  variables.erase("LOCAL_RANK");
  check(discover(variables), "torchrun variables", 3, 4, 1, 2);
  CHECK(discover(variables).host_is_known);
  variables.erase("LOCAL_WORLD_SIZE");
  lt::LaunchInfo info = discover(variables);
  check(info, "torchrun variables", 3, 4, 3, 4);
  CHECK_FALSE(info.host_is_known);
  lt::comm::learn_host_ranks(info, {"a", "b", "a", "b"});
  check(info, "torchrun variables", 3, 4, 1, 2);
  info.rank = 1;
  lt::comm::learn_host_ranks(info, {"a", "b", "c", "b"});
  check(info, "torchrun variables", 1, 4, 0, 2);
}

TEST_CASE("discover_ranks: Slurm counts only inside a step that srun started", "[comm]") {
  Variables batch = kSlurm;
  batch.erase("SLURM_STEP_ID");
  check(discover(batch), "alone", 0, 1, 0, 1);
  batch["SLURM_STEP_ID"] = "4294967291";  // the batch script itself
  check(discover(batch), "alone", 0, 1, 0, 1);
  Variables incomplete = kSlurm;
  incomplete.erase("SLURM_LOCALID");
  CHECK(message_of(incomplete).ends_with("expected SLURM_LOCALID too, which is not set"));
  check(discover(merged(kTorchrun, batch)), "torchrun variables", 3, 4, 1, 2);
}

TEST_CASE("discover_ranks: tasks of a Slurm node", "[comm]") {
  const auto local_size = [](const std::string& list, const std::string& node) {
    Variables variables = kSlurm;
    variables["SLURM_STEP_TASKS_PER_NODE"] = list, variables["SLURM_NODEID"] = node;
    return discover(variables).local_size;
  };
  CHECK(local_size("4(x2),3", "0") == 4);
  CHECK(local_size("4(x2),3", "1") == 4);
  CHECK(local_size("2,9", "1") == 9);
  Variables unknown = kSlurm;
  unknown.erase("SLURM_STEP_TASKS_PER_NODE");
  CHECK(discover(unknown).local_size == 11);
}

TEST_CASE("discover_ranks: values that make no sense are refused by name", "[comm]") {
  CHECK(message_of(merged(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "6"}})) ==
        "OMPI_COMM_WORLD_RANK: expected a number from 0 to 5, got \"6\"");
  CHECK(message_of(merged(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "0"}})) ==
        "OMPI_COMM_WORLD_SIZE: expected a number from 1 to 1048576, got \"0\"");
  CHECK(message_of(merged(kTorchrun, {{"RANK", "three"}})) == "RANK: expected a number from 0 to 3, got \"three\"");
  CHECK(message_of(merged(kTorchrun, {{"LOCAL_RANK", "-1"}})) ==
        "LOCAL_RANK: expected a number from 0 to 1, got \"-1\"");
  CHECK(message_of(merged(kSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "4(x"}})) ==
        "SLURM_STEP_TASKS_PER_NODE: expected a list such as 4(x2),3 with an entry for each node, got \"4(x\"");
  CHECK(message_of(merged(kSlurm, {{"SLURM_NODEID", "3"}})) ==
        "SLURM_STEP_TASKS_PER_NODE: expected a list such as 4(x2),3 with an entry for each node, got \"4(x2),3\"");
}

TEST_CASE("init: ranks that cannot meet are refused with what makes a run of one", "[comm]") {
  const auto hint_of = [](const Variables& variables) -> std::string {
    const Environment environment(variables);
    int argc = 0;
    char** argv = nullptr;
    try {
      lt::init(argc, argv);
    } catch (const lt::CommError& error) {
      CHECK(static_cast<int>(error.code()) == 4);
      return error.hint();
    }
    return "nothing was thrown";
  };
  CHECK(
      hint_of(kSlurm) ==
      "start them with mpirun -n N, srun --mpi=pmix or ltrain launch -n N, or set MASTER_ADDR and MASTER_PORT; srun -n "
      "1, or unset SLURM_STEP_ID, for a run of one");
  CHECK(hint_of(merged(kTorchrun, {{"MASTER_ADDR", std::string(64, 'x')}})) ==
        "unset WORLD_SIZE and RANK for a run of one");
}
