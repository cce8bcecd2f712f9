// Reads the meeting place and the token from the environment. Without LTRAIN_TOKEN, reads the token from a file that
// rank 0 keeps while the ranks meet.
#include "comm/tcp/tcp_world.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "comm/alone.h"
#include "comm/tcp/meeting_token.h"
#include "comm/tcp/tcp_group.h"
#include "comm/tcp/tcp_socket.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

// The descriptor of kListenVariable; -1: none.
int handed_listener(int port) {
  const char* const text = std::getenv(kListenVariable);
  int handle = -1;
  if (text == nullptr) return handle;
  std::from_chars(text, text + std::strlen(text), handle);
  return listening_port(handle) == port ? handle : -1;
}

}  // namespace

std::optional<MeetingPlace> meeting_place() {
  const char *const host = std::getenv("MASTER_ADDR"), *const port = std::getenv("MASTER_PORT");
  if (host == nullptr || port == nullptr || *host == '\0' || *port == '\0') return std::nullopt;
  const std::string text = port;
  MeetingPlace place{host, 0};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), place.port);
  if (error != std::errc() || end != text.data() + text.size() || place.port < 1 || place.port > 65535) {
    throw CommError("MASTER_PORT: expected a port from 1 to 65535, got \"" + text + "\"");
  }
  const char* const agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (agent != nullptr && std::string(agent) == "True") place.port = place.port % 65535 + 1;
  return place;
}

std::shared_ptr<GroupBackend> meet_without_mpi(const MeetingPlace& place, const LaunchInfo& info,
                                               const MeetingOptions& options) {
  const std::string run_of_one = run_of_one_hint(info);
  if (const std::string problem = problem_of_name(place.host); !problem.empty()) {
    throw CommError(fmt::format("MASTER_ADDR: expected the name of rank 0's host, got \"{}\": {}", place.host, problem),
                    run_of_one);
  }
  TcpMeeting meeting{place.host, place.port, info.rank, info.size, info.local_size == info.size, {}};
  if (info.rank == 0) meeting.listening = handed_listener(place.port);
  std::optional<MeetingTokenFile> file;
  if (const auto given = token_of_environment()) {
    meeting.token = {[given] { return given; }, false, "LTRAIN_TOKEN"};
  } else if (options.shared_folder) {
    const std::string path = token_file_path(options.shared_folder());
    if (info.rank == 0) file.emplace(path);
    meeting.token = {[&file, path] { return file ? file->token() : read_token_file(path); }, true, path};
  } else {
    throw CommError(
        "ranks that meet over TCP: expected their token in LTRAIN_TOKEN, it is not set",
        "start them with `ltrain launch`, or export LTRAIN_TOKEN=$(openssl rand -hex 16), the same for all; " +
            run_of_one);
  }
  try {
    return make_tcp_world_backend(meeting);
  } catch (const CommError& error) {
    if (token_of_environment()) throw;  // who set the token has set the other variables, too
    throw CommError(error.what(), error.hint().empty() ? run_of_one : error.hint() + "; " + run_of_one);
  }
}

std::string host_name() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return host;
}

void learn_host_ranks(LaunchInfo& info, const std::vector<std::string>& hosts) {
  const auto own = hosts.begin() + info.rank;
  info.local_rank = static_cast<int>(std::count(hosts.begin(), own, *own));
  info.local_size = static_cast<int>(std::count(hosts.begin(), hosts.end(), *own));
  info.host_is_known = true;
}

}  // namespace lt::comm
