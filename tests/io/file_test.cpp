// Files and descriptors: a file gets its name only when it is complete, files are read completely, and planted links
// are not followed.
#include "io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "io/entropy.h"
#include "io/file_name.h"
#include "io/standard_descriptors.h"
#include "io/utf8.h"
#include "io/whole_file.h"
#include "libtrain/error.h"
#include "test_main/catch.h"
#include "test_main/temp_folder.h"

using namespace lt;
using namespace lt::io;
using lt_test::TempFolder;

namespace {

namespace fs = std::filesystem;

std::ptrdiff_t files_in(const TempFolder& folder) {
  return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator());
}

}  // namespace

TEST_CASE("pending file: a pipe is not replaced by a file", "[io]") {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THROWS_AS(write_whole_file("test", pipe, "text"), DataError);
  CHECK(fs::is_fifo(pipe));
  CHECK(files_in(folder) == 1);
}

TEST_CASE("pending file: what a killed writer left goes, and nothing else does", "[io]") {
  const TempFolder folder;
  const std::string path = folder / "env.json";
  for (const char* name : {".tmp-0123456789abcdef", ".tmp-fedcba9876543210", "", ".bak", "2.tmp-0123456789abcdef"}) {
    REQUIRE(create_new(path + name).is_open());
  }
  remove_pending(path);
  CHECK(files_in(folder) == 3);
  CHECK(fs::exists(path));
  CHECK(fs::exists(path + ".bak"));
  CHECK(fs::exists(path + "2.tmp-0123456789abcdef"));
  remove_pending(folder / "none/env.json");
}

TEST_CASE("pending file: a link under the name that this process would choose is left alone", "[io]") {
  const TempFolder folder;
  const std::string path = folder / "config.toml", victim = folder / "victim";
  write_whole_file("record", victim, "mine");
  fs::create_symlink(victim, path + ".tmp-" + std::to_string(::getpid()));
  write_whole_file("record", path, "text");
  CHECK(read_whole_file("record", path) == "text");
  CHECK(read_whole_file("record", victim) == "mine");
}

TEST_CASE("pending file: two of one name do not meet, and what is not committed is gone", "[io]") {
  const TempFolder folder;
  const std::string path = folder / "a";
  {
    PendingFile first("record", path), second("record", path);
    CHECK(files_in(folder) == 2);
    first.write("first", 5);
    second.write("second", 6);
    second.commit();
  }
  CHECK(files_in(folder) == 1);
  CHECK(read_whole_file("record", path) == "second");
  CHECK_THROWS_AS(PendingFile("record", folder / "none/a"), DataError);
}

TEST_CASE("pending file: names as long as the file system allows", "[io]") {
  const TempFolder folder;
  const std::string letters(255, 'x'), accents = [] {
    std::string text = "x";
    for (int i = 0; i < 127; ++i) text += "\xc3\xa9";
    return text;
  }();
  for (const std::string& name : {letters, accents}) {
    write_whole_file("record", folder / name, "text");
    CHECK(read_whole_file("record", folder / name) == "text");
    const fs::path beside = with_suffix(folder / name, ".tmp-0123456789abcdef");
    CHECK(beside.parent_path() == folder.path());
    CHECK(is_utf8(beside.filename().string()));
    REQUIRE(create_new(beside).is_open());
    remove_pending(folder / name);
    CHECK(!fs::exists(beside));
  }
  CHECK(with_suffix("a/" + letters, ".old") == "a/" + letters.substr(0, 251) + ".old");
  CHECK(with_suffix("a/" + accents, ".old") == "a/" + accents.substr(0, 251) + ".old");
  CHECK(with_suffix("a/" + accents, ".old-") == "a/" + accents.substr(0, 249) + ".old-");
  CHECK(with_suffix("b", ".old") == "b.old");
  CHECK(files_in(folder) == 2);
}

TEST_CASE("new file: what stands under the name is neither followed nor overwritten", "[io]") {
  const TempFolder folder;
  const std::string victim = folder / "victim", link = folder / "link";
  write_whole_file("record", victim, "mine");
  fs::create_symlink(victim, link);
  fs::create_symlink(folder.path() / "nothing", folder.path() / "dangling");
  for (const char* name : {"victim", "link", "dangling"}) {
    CHECK(!create_new((folder.path() / name).string()).is_open());
    CHECK(errno == EEXIST);
  }
  CHECK(read_whole_file("record", victim) == "mine");
  CHECK(create_new(folder / "new").is_open());
}

TEST_CASE("whole file: grown files and those of no size are read, others told apart", "[io]") {
  const TempFolder folder;
  const std::string path = folder / "text", pipe = folder / "pipe";
  for (const std::size_t bytes : {0u, 1u, 4095u, 4096u, 100000u}) {
    const std::string text(bytes, 'x');
    write_whole_file("record", path, text);
    CHECK(read_file(path, true, bytes).text == text);
    CHECK(read_file(path).problem.empty());
  }
  CHECK(read_file(path, true, 99999).problem == "more than 99999 bytes");
  CHECK(read_file("/proc/self/status").text.starts_with("Name:"));
  CHECK(read_file("/proc/self/status", true, 8).problem == "more than 8 bytes");
  CHECK(read_file(folder.text()).problem == "a folder");
  CHECK(read_file(path + "2").problem == "No such file or directory");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(read_file(pipe, true).problem == "a device or pipe");
}

TEST_CASE("descriptor: one owner at a time closes it, once", "[io]") {
  const auto is_valid = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
  Descriptor first(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const int fd = first.get();
  Descriptor second(std::move(first));
  CHECK((!first.is_open() && second.get() == fd && is_valid(fd)));
  second = Descriptor();
  CHECK(!is_valid(fd));
  CHECK(second.close());  // nothing to close
  Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  CHECK(!full.write("x", 1));
  CHECK(errno == ENOSPC);
  CHECK(full.close());
  CHECK(!full.is_open());
}

TEST_CASE("standard descriptors: a closed one gives no file its number, and takes nothing", "[io]") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int fd : {0, 1, 2}) ::close(fd);
    open_standard_descriptors();
    char byte = 0;
    for (const int fd : {0, 1, 2}) {
      struct stat there {};
      struct stat null {};
      const bool is_null = ::fstat(fd, &there) == 0 && ::stat("/dev/null", &null) == 0 && there.st_rdev == null.st_rdev;
      if (!is_null || (fd == 0 ? ::read(fd, &byte, 1) : ::write(fd, "x", 1)) != -1 || errno != EBADF) ::_exit(1 + fd);
    }
    ::_exit(::open("/dev/zero", O_RDONLY) > 2 ? 0 : 9);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  const int before = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  open_standard_descriptors();  // none is closed: opens nothing
  const int after = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  CHECK(after == before + 1);
  ::close(before), ::close(after);
}

TEST_CASE("entropy: digits differ", "[io]") {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) names.insert(random_hex(16));
  CHECK(names.size() == 1000);
  std::string all;
  for (const std::string& name : names) all += name;
  CHECK(all.find_first_not_of("0123456789abcdef") == std::string::npos);
  for (const char digit : std::string("0123456789abcdef")) CHECK(all.find(digit) != std::string::npos);
  CHECK(random_hex(0).empty());
  CHECK(random_hex(513).size() == 513);  // more than the kernel guarantees in one call
}
