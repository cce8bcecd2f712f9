// CPU quotas of containers, read from made-up trees of /proc and /sys/fs/cgroup.
#include "device/cgroup.h"

#include <string>

#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using lt_test::TempFolder;

namespace {

// A made-up file tree below its own root.
class Machine {
 public:
  void write(const std::string& path, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(root_ / path).parent_path());
    root_.write(path, content);
  }
  std::filesystem::path root() const { return root_ / ""; }
  std::vector<double> quotas() const {
    std::vector<double> cores;
    for (const lt::device::CpuQuota& quota : lt::device::cpu_quotas(root())) cores.push_back(quota.cores);
    return cores;
  }

 private:
  TempFolder root_;
};

using Cores = std::vector<double>;

}  // namespace

TEST_CASE("cgroups: a quota of version 2 holds for the groups below it", "[device]") {
  Machine machine;
  machine.write("proc/self/cgroup", "0::/pod/train\n");
  machine.write("sys/fs/cgroup/pod/train/cpu.max", "max 100000\n");
  machine.write("sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  CHECK(machine.quotas() == Cores{1.5});
  machine.write("sys/fs/cgroup/pod/train/cpu.max", "50000 100000\n");
  CHECK(machine.quotas() == Cores{0.5, 1.5});
}

TEST_CASE("cgroups: version 1 keeps quota and period in two files, and -1 is none", "[device]") {
  Machine machine;
  machine.write("proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n0::/\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  machine.write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  machine.write("sys/fs/cgroup/memory/job/cpu.cfs_quota_us", "100000\n");  // another controller, ignored
  CHECK(machine.quotas() == Cores{4});
}

TEST_CASE("cgroups: inside a container the path may be the host's", "[device]") {
  Machine machine;
  machine.write("proc/self/cgroup", "0::/docker/0123456789ab\n");
  machine.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  CHECK(machine.quotas() == Cores{2});
}

TEST_CASE("cgroups: groups are told apart, and what is missing or damaged limits nothing", "[device]") {
  Machine machine;
  CHECK(machine.quotas().empty());
  machine.write("proc/self/cgroup", "garbage\n0::/a/b\n");
  machine.write("sys/fs/cgroup/a/b/cpu.max", "nonsense\n");
  machine.write("sys/fs/cgroup/a/cpu.max", "");
  CHECK(machine.quotas().empty());
  machine.write("sys/fs/cgroup/a/b/cpu.max", "100000 100000");
  machine.write("sys/fs/cgroup/a/cpu.max", "100000 100000");
  const auto quotas = lt::device::cpu_quotas(machine.root());
  REQUIRE(quotas.size() == 2);
  CHECK(quotas[0].group != quotas[1].group);
}
