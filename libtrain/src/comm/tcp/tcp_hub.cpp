// Rank 0's exchange. One thread polls all connections, passes incoming frames to the switchboard and sends its answers.
// It never blocks on one connection, so a slow rank does not delay other ranks.
#include "comm/tcp/tcp_hub.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "comm/tcp/tcp_mailbox.h"
#include "comm/tcp/tcp_switchboard.h"
#include "libtrain/error.h"

namespace lt::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLeaveDeadline{15}, kUnwindDeadline{1};

class HubExchange final : public TcpExchange {
 public:
  explicit HubExchange(std::vector<io::Descriptor> handles)
      : switchboard_(static_cast<int>(handles.size()), [this](int rank, const Frame& frame) { answer(rank, frame); }),
        links_(handles.size()) {
    watch(wake_, kWake, EPOLLIN);
    for (std::size_t r = 1; r < handles.size(); ++r) {
      links_[r].handle = std::move(handles[r]);
      set_blocking(links_[r].handle, false);
      watch(links_[r].handle, r, EPOLLIN);
    }
    open_links_ = handles.size() - 1;
    thread_ = std::thread([this] { serve(); });
  }

  ~HubExchange() override {
    const auto patience = std::uncaught_exceptions() > 0 ? kUnwindDeadline : kLeaveDeadline;
    {
      const std::lock_guard lock(mutex_);
      leave_by_ = Clock::now() + patience;
    }
    wake();
    thread_.join();
  }

  void tell(Frame frame) override {
    {
      const std::lock_guard lock(mutex_);
      inbox_.push_back(std::move(frame));
    }
    wake();
  }
  Frame ask(Frame frame) override {
    const std::uint64_t channel = frame.header.channel;
    tell(std::move(frame));
    return mailbox_.take(channel);
  }

 private:
  static constexpr std::uint64_t kWake = 0;  // the id of wake_ in epoll; connections have their rank

  struct Link {
    io::Descriptor handle;
    FrameReader reader;
    FrameWriter writer;
    bool waits_to_write = false;
  };

  void watch(const io::Descriptor& handle, std::uint64_t who, std::uint32_t events, int how = EPOLL_CTL_ADD) {
    epoll_event event{};
    event.events = events, event.data.u64 = who;
    if (::epoll_ctl(epoll_.get(), how, handle.get(), &event) != 0) {
      throw CommError(fmt::format("epoll_ctl: {}", std::strerror(errno)));
    }
  }

  void wake() { ::eventfd_write(wake_.get(), 1); }

  void serve() {
    try {
      while (!has_left()) turn();
    } catch (const std::exception& error) {
      mailbox_.close(fmt::format("rank 0: {}", error.what()));
      for (Link& link : links_) link.handle = io::Descriptor();
    }
  }

  bool has_left() {
    const std::lock_guard lock(mutex_);
    return leave_by_ && (open_links_ == 0 || Clock::now() >= *leave_by_);
  }

  void turn() {
    std::array<epoll_event, 256> events;
    int timeout = -1;
    {
      const std::lock_guard lock(mutex_);
      if (leave_by_) timeout = poll_ms_until(*leave_by_);
    }
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
    if (count < 0 && errno != EINTR) throw CommError(fmt::format("epoll_wait: {}", std::strerror(errno)));
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      event.data.u64 == kWake ? take_own() : serve(static_cast<int>(event.data.u64), event.events);
    }
  }

  // Takes the frames that this process itself sends.
  void take_own() {
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
    std::vector<Frame> frames;
    bool leaves = false;
    {
      const std::lock_guard lock(mutex_);
      frames = std::exchange(inbox_, {});
      leaves = leave_by_.has_value();
    }
    for (Frame& frame : frames) switchboard_.take(0, std::move(frame));
    if (leaves && !std::exchange(has_told_, true)) switchboard_.lose(0, kTcpGone);
  }

  void serve(int rank, std::uint32_t events) {
    Link& link = links_[static_cast<std::size_t>(rank)];
    if (link.handle.get() < 0) return;
    if ((events & EPOLLOUT) != 0) flush(rank);
    if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0 || link.handle.get() < 0) return;
    std::vector<Frame> frames;
    try {
      const bool open = link.reader.read(link.handle, frames) != FrameReader::State::closed;
      for (Frame& frame : frames) switchboard_.take(rank, std::move(frame));
      if (!open) lose(rank, link.reader.problem().empty() ? kTcpGone : link.reader.problem());
    } catch (const CommError& error) {
      lose(rank, error.what());
    }
  }

  void answer(int rank, const Frame& frame) {
    if (rank == 0) return mailbox_.put(frame);
    Link& link = links_[static_cast<std::size_t>(rank)];
    if (link.handle.get() < 0) return;
    link.writer.push(frame);
    flush(rank);
  }

  void flush(int rank) {
    Link& link = links_[static_cast<std::size_t>(rank)];
    if (link.handle.get() < 0 || !link.writer.flush(link.handle)) return;  // an event reports a lost peer as well
    if (link.writer.is_empty() == !link.waits_to_write) return;
    link.waits_to_write = !link.writer.is_empty();
    watch(link.handle, static_cast<std::uint64_t>(rank), link.waits_to_write ? EPOLLIN | EPOLLOUT : EPOLLIN,
          EPOLL_CTL_MOD);
  }

  void lose(int rank, std::string why) {
    Link& link = links_[static_cast<std::size_t>(rank)];
    if (link.handle.get() < 0) return;
    link = Link();
    --open_links_;
    switchboard_.lose(rank, why);
  }

  io::Descriptor epoll_{::epoll_create1(EPOLL_CLOEXEC)}, wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  TcpMailbox mailbox_;
  Switchboard switchboard_;  // from here to has_told_: used by the thread alone
  std::vector<Link> links_;
  std::size_t open_links_ = 0;
  bool has_told_ = false;  // the others know that this rank leaves
  std::mutex mutex_;       // guards inbox_ and leave_by_
  std::vector<Frame> inbox_;
  std::optional<Clock::time_point> leave_by_;
  std::thread thread_;
};

}  // namespace

std::shared_ptr<TcpExchange> make_tcp_hub(std::vector<io::Descriptor> links) {
  return std::make_shared<HubExchange>(std::move(links));
}

}  // namespace lt::comm
