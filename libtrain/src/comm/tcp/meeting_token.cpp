// Reads and writes tokens as 32 hexadecimal digits, in the environment and in files.
#include "comm/tcp/meeting_token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "io/descriptor.h"
#include "io/entropy.h"
#include "io/file.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

constexpr std::size_t kDigits = 2 * sizeof(MeetingToken);

std::string to_text(const MeetingToken& token) {
  std::string text;
  for (const std::uint8_t byte : token) text += fmt::format("{:02x}", byte);
  return text;
}

std::optional<int> digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::optional<MeetingToken> from_text(std::string_view text) {
  if (text.size() != kDigits) return std::nullopt;
  MeetingToken token;
  for (std::size_t i = 0; i < token.size(); ++i) {
    const auto high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
    if (!high || !low) return std::nullopt;
    token[i] = static_cast<std::uint8_t>(16 * *high + *low);
  }
  return token;
}

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw CommError(fmt::format("the file by which ranks meet, {}: {}", path, problem),
                  "the run's folder must lie in one that all hosts share; `ltrain launch` needs no such file");
}

}  // namespace

MeetingToken random_token() {
  MeetingToken token;
  io::fill_random(token.data(), token.size());
  return token;
}

std::optional<MeetingToken> token_of_environment() {
  const char* const text = std::getenv("LTRAIN_TOKEN");
  if (text == nullptr || *text == '\0') return std::nullopt;
  const auto token = from_text(text);
  // Do not repeat the text: it may be most of a secret.
  if (!token) {
    throw CommError(fmt::format("LTRAIN_TOKEN: expected {} hexadecimal digits, got other text of {} characters",
                                kDigits, std::strlen(text)),
                    "export LTRAIN_TOKEN=$(openssl rand -hex 16), the same on all ranks; `ltrain launch` sets it");
  }
  return token;
}

std::string token_file_path(const std::string& folder) {
  std::string name = ".libtrain-meeting";
  for (const char* variable : {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "TORCHELASTIC_RUN_ID",
                               "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"}) {
    const char* const value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    name += '-';
    for (const char* c = value; *c != '\0'; ++c) name += std::isalnum(static_cast<unsigned char>(*c)) != 0 ? *c : '_';
  }
  return (std::filesystem::path(folder) / name).string();
}

MeetingTokenFile::MeetingTokenFile(std::string path) : path_(std::move(path)) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), failed);  // open() reports the reason
  // Written in full under an unguessable name, then renamed into place.
  const std::string fresh = path_ + "." + to_text(random_token());
  const auto fail_with_errno = [&] {
    const std::string problem = std::strerror(errno);
    ::unlink(fresh.c_str());
    fail(path_, "cannot be written: " + problem);
  };
  const io::Descriptor file = io::create_new(fresh, 0600);
  const std::string text = to_text(token_) + "\n";
  if (!file.is_open() || !file.write(text.data(), text.size()) || ::fsync(file.get()) != 0 ||
      ::rename(fresh.c_str(), path_.c_str()) != 0) {
    fail_with_errno();
  }
}

MeetingTokenFile::~MeetingTokenFile() { ::unlink(path_.c_str()); }

std::optional<MeetingToken> read_token_file(const std::string& path) {
  const io::Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT || errno == ESTALE) return std::nullopt;  // ESTALE: on NFS, the file was replaced
    fail(path, errno == ELOOP ? "expected a file, found a link" : std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(path, "expected a file, found something else");
  if (status.st_uid != ::geteuid())
    fail(path, fmt::format("expected one of this user, its owner is {}", status.st_uid));
  if ((status.st_mode & 077) != 0) fail(path, fmt::format("expected mode 600, found {:o}", status.st_mode & 0777));
  std::array<char, kDigits + 2> text{};
  const ssize_t count = ::read(file.get(), text.data(), text.size());
  const auto token = from_text({text.data(), std::min(kDigits, static_cast<std::size_t>(std::max<ssize_t>(0, count)))});
  if (!token || count != static_cast<ssize_t>(kDigits + 1)) fail(path, "expected a token, found something else");
  return token;
}

}  // namespace lt::comm
