// The token of a meeting: its source, its access rights, and the keyed hash that proves it.
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <numeric>

#include "comm/launch_variables.h"
#include "comm/tcp/meeting_token.h"
#include "libtrain/error.h"
#include "test_main/catch.h"

using namespace lt;
using namespace lt::comm;
using namespace lt_test;

TEST_CASE("siphash: the values of its authors", "[comm]") {
  SipKey key;
  std::iota(key.begin(), key.end(), std::uint8_t{0});
  std::string text(15, '\0');
  std::iota(text.begin(), text.end(), char{0});
  CHECK(siphash(key, text) == 0xa129ca6149be45e5);  // from the paper, appendix A
  CHECK(siphash(key, "") == 0x726fdb47dd0e0e31);    // from the reference implementation, as are the next two
  CHECK(siphash(key, text.substr(0, 1)) == 0x74f839c593dc67fd);
  CHECK(siphash(key, text.substr(0, 8)) == 0x93f5f5799a932462);
}

TEST_CASE("token file: its owner's alone, fresh each time, gone at the end", "[comm]") {
  const TempFolder folder;
  const std::string path = folder / "deeper/token", target = folder / "target";
  std::filesystem::create_directory(folder / "deeper");
  write_file(target, "untouched", 0644);
  std::filesystem::create_symlink(target, path);  // somebody else's trap
  {
    const MeetingTokenFile file(path);
    struct stat status {};
    CHECK(::lstat(path.c_str(), &status) == 0);
    CHECK(S_ISREG(status.st_mode));
    CHECK((status.st_mode & 0777) == 0600);
    CHECK(read_token_file(path) == file.token());
    CHECK(MeetingTokenFile(folder / "other").token() != file.token());
  }
  CHECK_FALSE(read_token_file(path));
  CHECK(std::filesystem::is_empty(folder / "deeper"));
  CHECK(std::filesystem::file_size(target) == 9);
}

TEST_CASE("token file: what is no safe file is refused", "[comm]") {
  const TempFolder folder;
  const std::string path = folder / "token", token = "00112233445566778899aabbccddeeff\n";
  const auto problem = [&] {
    try {
      read_token_file(path);
    } catch (const CommError& error) {
      return std::string(error.what()).substr(std::strlen("the file by which ranks meet, ") + path.size() + 2);
    }
    return std::string("none");
  };
  write_file(path, token, 0640);
  CHECK(problem() == "expected mode 600, found 640");
  for (const std::string& text : {std::string(), token.substr(1), token + "x", "x" + token.substr(1)}) {
    write_file(path, text, 0600);
    CHECK(problem() == "expected a token, found something else");
  }
  std::filesystem::rename(path, folder / "elsewhere");
  std::filesystem::create_symlink(folder / "elsewhere", path);
  CHECK(problem() == "expected a file, found a link");
  std::filesystem::remove(path);
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(problem() == "expected a file, found something else");
  CHECK_THROWS_AS(MeetingTokenFile("/proc/no/such/folder/token"), CommError);
}

TEST_CASE("token file: its name is of one launch", "[comm]") {
  const auto name = [](const std::map<std::string, std::string>& variables) {
    const Environment environment(variables);
    return token_file_path("folder");
  };
  CHECK(name({}) == "folder/.libtrain-meeting");
  CHECK(name({{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "0"}, {"MASTER_PORT", "2950"}}) ==
        "folder/.libtrain-meeting-12-0-2950");
  CHECK(name({{"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "0"}, {"SLURM_RESTART_COUNT", "1"}, {"MASTER_PORT", "2950"}}) ==
        "folder/.libtrain-meeting-12-0-1-2950");
  CHECK(name({{"TORCHELASTIC_RUN_ID", "../x"}, {"MASTER_PORT", "1"}}) == "folder/.libtrain-meeting-___x-1");
}

TEST_CASE("token of the environment: 32 hexadecimal digits, and never repeated in a message", "[comm]") {
  const auto token = [](const std::string& text) {
    const Environment environment({{"LTRAIN_TOKEN", text}});
    return token_of_environment();
  };
  CHECK_FALSE(token(""));
  CHECK(token("0102030405060708090a0B0c0D0e0f10") ==
        MeetingToken{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  for (const char* text : {"0102030405060708090a0b0c0d0e0f1", "0102030405060708090a0b0c0d0e0f1g"}) {
    try {
      token(text);
      FAIL("taken: " << text);
    } catch (const CommError& error) {
      CHECK(error.code() == ExitCode::communication);
      CHECK(std::string(error.what()).starts_with("LTRAIN_TOKEN: expected 32 hexadecimal digits, got other text of 3"));
      CHECK(std::string(error.what()).find("0102") == std::string::npos);
    }
  }
}
