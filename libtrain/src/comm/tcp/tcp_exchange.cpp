// The exchange of ranks other than 0: a thread reads the only connection.
#include "comm/tcp/tcp_exchange.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/tcp/tcp_hub.h"
#include "comm/tcp/tcp_mailbox.h"

namespace lt::comm {
namespace {

class MemberExchange final : public TcpExchange {
 public:
  explicit MemberExchange(io::Descriptor link) : link_(std::move(link)), reader_([this] { read(); }) {}
  ~MemberExchange() override {
    ::shutdown(link_.get(), SHUT_RDWR);
    reader_.join();
  }

  void tell(Frame frame) override {
    const std::lock_guard lock(writing_);
    static_cast<void>(write_frame(link_, frame));  // if it fails, the reader reports it
  }
  Frame ask(Frame frame) override {
    const std::uint64_t channel = frame.header.channel;
    tell(std::move(frame));
    return mailbox_.take(channel);
  }

 private:
  void read() {
    std::string why = fmt::format("rank 0: {}", kTcpGone);
    try {
      FrameReader reader;
      std::vector<Frame> frames;
      for (bool open = true; open; frames.clear()) {
        open = reader.read(link_, frames) != FrameReader::State::closed;
        for (Frame& frame : frames) mailbox_.put(std::move(frame));
      }
      if (!reader.problem().empty()) why = fmt::format("rank 0: {}", reader.problem());
    } catch (const std::exception& error) {
      why = fmt::format("rank 0: {}", error.what());
    }
    mailbox_.close(why);
  }

  io::Descriptor link_;
  std::mutex writing_;
  TcpMailbox mailbox_;
  std::thread reader_;
};

}  // namespace

std::shared_ptr<TcpExchange> make_tcp_exchange(int rank, std::vector<io::Descriptor> links) {
  if (rank == 0) return make_tcp_hub(std::move(links));
  return std::make_shared<MemberExchange>(std::move(links.front()));
}

}  // namespace lt::comm
