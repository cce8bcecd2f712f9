// Memory limits of control groups, read from made-up folders.
#include "device/cgroup.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt::device;

namespace {

namespace fs = std::filesystem;

struct Root {
  void write(const std::string& file, const std::string& text) const { folder.write(file, text + "\n"); }
  std::optional<Size> limit() const { return memory_limit_bytes(folder.path()); }
  lt_test::TempFolder folder;
};

}  // namespace

TEST_CASE("memory limit: the smallest on the way up counts", "[device]") {
  const Root root;
  CHECK(root.limit() == std::nullopt);  // no control groups at all
  root.write("proc/self/cgroup", "0::/jobs/42/task");
  CHECK(root.limit() == std::nullopt);
  root.write("sys/fs/cgroup/jobs/42/task/memory.max", "max");
  CHECK(root.limit() == std::nullopt);
  root.write("sys/fs/cgroup/jobs/memory.max", "3000");
  CHECK(root.limit() == 3000);
  root.write("sys/fs/cgroup/jobs/42/memory.max", "5000");
  CHECK(root.limit() == 3000);
  root.write("sys/fs/cgroup/jobs/42/task/memory.max", "2000");
  CHECK(root.limit() == 2000);
}

TEST_CASE("memory limit: what is left counts the groups' use, but no files that can be dropped", "[device]") {
  const Root root;
  const auto left = [&] { return memory_left_bytes(root.folder.path()); };
  root.write("proc/self/cgroup", "0::/jobs/42");
  CHECK(left() == std::nullopt);
  root.write("sys/fs/cgroup/jobs/memory.max", "9000");
  root.write("sys/fs/cgroup/jobs/memory.current", "4000");
  CHECK(left() == 5000);
  root.write("sys/fs/cgroup/jobs/memory.stat", "anon 3000\ninactive_file 1000\nactive_file 0");
  CHECK(left() == 6000);
  root.write("sys/fs/cgroup/jobs/42/memory.max", "3000");
  root.write("sys/fs/cgroup/jobs/42/memory.current", "3500");
  CHECK(left() == 0);
}

TEST_CASE("memory limit: in a container with a namespace of its own it stands at the mount", "[device]") {
  const Root root;
  root.write("proc/self/cgroup", "0::/");
  root.write("sys/fs/cgroup/memory.max", "1073741824");
  CHECK(root.limit() == Size{1} << 30);
}

TEST_CASE("memory limit: version 1", "[device]") {
  const Root root;
  root.write("proc/self/cgroup", "12:cpu,cpuacct:/a\n7:memory:/docker/abc\n1:name=systemd:/x\n0::/");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");  // unlimited
  CHECK(root.limit() == std::nullopt);
  root.write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "4096000");
  CHECK(root.limit() == 4096000);
  fs::remove_all(root.folder.path() / "sys/fs/cgroup/memory/docker");  // inside a container the path is the host's
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "8192000");
  CHECK(root.limit() == 8192000);
}
