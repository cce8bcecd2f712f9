// Threads per rank on made-up machines: which ranks share which cores, and which limit is the smallest (affinity mask,
// Slurm, container).
#include <string>

#include "comm/thread_count.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

namespace {

using lt::comm::CoreSources;
using Keys = std::vector<std::vector<std::string>>;

std::vector<std::string> keys_of(const CoreSources& rank) {
  std::vector<std::string> keys;
  for (const lt::comm::CoreGrant& grant : lt::comm::core_grants(rank)) keys.push_back(grant.key);
  return keys;
}

// Each rank's thread count and its reason: "2: why".
std::vector<std::string> chosen(const std::vector<CoreSources>& ranks) {
  Keys keys;
  for (const CoreSources& rank : ranks) keys.push_back(keys_of(rank));
  std::vector<std::string> texts;
  for (const CoreSources& rank : ranks) {
    const lt::ThreadCount threads = lt::comm::thread_count(lt::comm::core_grants(rank), keys);
    texts.push_back(std::to_string(threads.count) + ": " + threads.reason);
  }
  return texts;
}

CoreSources on(const std::string& kernel, const std::vector<int>& processors) {
  CoreSources rank;
  rank.kernel = kernel;
  rank.processors = processors;
  return rank;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("threads: a rank alone takes its affinity mask", "[comm]") {
  CHECK(chosen({on("a", {0, 1, 2, 3})}) == Texts{"4: 4 cores of this host"});
  CHECK(chosen({on("a", {7})}) == Texts{"1: 1 core of this host"});
  CHECK(chosen({CoreSources{}}) == Texts{"1: nothing says how many cores there are"});
}

TEST_CASE("threads: ranks with the same mask under one kernel divide it", "[comm]") {
  const CoreSources rank = on("a", {0, 1, 2, 3, 4});
  CHECK(chosen({rank, rank}) == Texts(2, "2: 5 cores of this host over 2 ranks"));
  CHECK(chosen(std::vector<CoreSources>(7, rank)) == Texts(7, "1: 5 cores of this host over 7 ranks"));
  // A binding launcher gives each rank its own cores; other hosts have other kernels.
  CHECK(chosen({on("a", {0, 1}), on("a", {2, 3}), on("b", {0, 1})}) == Texts(3, "2: 2 cores of this host"));
}

TEST_CASE("threads: Slurm's grants bound the mask, and the mask bounds them", "[comm]") {
  CoreSources rank = on("a", {0, 1, 2, 3, 4, 5, 6, 7});
  rank.slurm_cpus_per_task = "3";
  CHECK(chosen({rank, rank}) == Texts(2, "3: SLURM_CPUS_PER_TASK=3"));
  rank.slurm_cpus_per_task = "16";  // mpirun in a batch job still binds each rank to its cores
  CHECK(chosen({rank}) == Texts{"8: 8 cores of this host"});

  rank.slurm_cpus_per_task = "";
  rank.slurm_cpus_on_node = "4";
  rank.slurm_step = "17.0 0";
  CHECK(chosen({rank, rank}) == Texts(2, "2: Slurm's grant of 4 cores on this node over 2 ranks"));
  // Two simulated nodes on one kernel are granted the same cores.
  CoreSources other = rank;
  rank.processors = other.processors = {0, 1};
  rank.slurm_cpus_on_node = other.slurm_cpus_on_node = "2";
  other.slurm_step = "17.0 1";
  CHECK(chosen({rank, other}) == Texts(2, "1: 2 cores of this host over 2 ranks"));
}

TEST_CASE("threads: Slurm's numbers must make sense", "[comm]") {
  for (const char* text : {"0", "-2", "two", "4x", "99999999999"}) {
    CoreSources rank = on("a", {0});
    rank.slurm_cpus_per_task = text;
    CHECK_THROWS_AS(lt::comm::core_grants(rank), lt::CommError);
  }
}

TEST_CASE("threads: a container's quota counts, whole cores of it", "[comm]") {
  CoreSources rank = on("a", {0, 1, 2, 3, 4, 5, 6, 7});
  rank.quotas = {{"27:93", 2.5, "a quota of 2.5 cores"}};
  CHECK(chosen({rank}) == Texts{"2: a quota of 2.5 cores"});
  CHECK(chosen({rank, rank, rank}) == Texts(3, "1: a quota of 2.5 cores over 3 ranks"));
  CoreSources beside = rank;  // in its own container on the same processors
  beside.quotas[0].key = "27:94";
  CHECK(chosen({rank, beside}) == Texts(2, "2: a quota of 2.5 cores"));
}
