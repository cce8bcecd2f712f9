// The secret by which ranks that meet over TCP know each other: 128 random bits, from the launcher's environment, or
// handed on in a file of its owner alone. It never travels itself (tcp_greeting.h).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comm/siphash.h"

namespace lt {

using MeetingToken = SipKey;

// From the kernel's generator.
MeetingToken random_token();

// Where a rank learns the token.
struct TokenSource {
  std::function<std::optional<MeetingToken>()> read;  // nothing where there is none yet; may throw CommError
  // True: what was read may be of an earlier start, so whoever is turned away reads again.
  bool may_be_stale = false;
  std::string name;  // for messages: "LTRAIN_TOKEN", or the file
};

// LTRAIN_TOKEN; nothing where it is not set. Throws CommError where it is not 32 hexadecimal digits.
std::optional<MeetingToken> token_of_environment();

// The file of this launch in `folder`: Slurm's numbers of job, step and requeue, or those of torchrun, and MASTER_PORT
// are in its name, so that starts at the same time have a file each.
std::string token_file_path(const std::string& folder);

// Rank 0's: writes a fresh token, mode 600, over whatever stands there; the destructor removes the file. Throws
// CommError.
class MeetingTokenFile {
 public:
  explicit MeetingTokenFile(std::string path);
  ~MeetingTokenFile();
  MeetingTokenFile(const MeetingTokenFile&) = delete;
  MeetingTokenFile& operator=(const MeetingTokenFile&) = delete;
  const MeetingToken& token() const { return token_; }

 private:
  std::string path_;
  MeetingToken token_ = random_token();
};

// The other ranks': nothing where there is no such file. Throws CommError where it is a link, not this user's, open to
// others, or holds no token.
std::optional<MeetingToken> read_token_file(const std::string& path);

}  // namespace lt
