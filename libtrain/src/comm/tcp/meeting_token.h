// The secret by which ranks that meet over TCP recognise each other: 128 random bits, from the launcher's environment
// or from a file that only its owner can read. The token itself is never sent (tcp_greeting.h).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "comm/siphash.h"

namespace lt::comm {

using MeetingToken = SipKey;

// From the kernel's random generator.
MeetingToken random_token();

// A rank's source of the token.
struct TokenSource {
  std::function<std::optional<MeetingToken>()> read;  // returns nullopt if there is no token yet; may throw CommError
  // True if the token may be left over from an earlier start. A rank that is rejected then reads it again.
  bool may_be_stale = false;
  std::string name;  // for messages: "LTRAIN_TOKEN", or the file
};

// Reads LTRAIN_TOKEN. Returns nullopt if it is not set. Throws CommError if it is not 32 hexadecimal digits.
std::optional<MeetingToken> token_of_environment();

// The path of this launch's file in `folder`. The name holds Slurm's job, step and restart numbers, or torchrun's run
// id and restart number, and MASTER_PORT, so that simultaneous launches use different files.
std::string token_file_path(const std::string& folder);

// For rank 0: writes a fresh token, mode 600, over any existing file; the destructor removes the file. Throws
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

// For the other ranks. Returns nullopt if the file does not exist. Throws CommError if it is a link, belongs to another
// user, is accessible to other users, or holds no token.
std::optional<MeetingToken> read_token_file(const std::string& path);

}  // namespace lt::comm
