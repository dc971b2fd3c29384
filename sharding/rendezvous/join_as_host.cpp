#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "sharding/rendezvous/local_rendezvous.h"

namespace strata::sharding {
namespace {

constexpr std::size_t visitors_max = 256;  // connections that have not said who they are; beyond, the oldest goes

// "1, 3-5".
std::string join_ranges(const std::vector<int>& ascending) {
  std::string text;
  for (std::size_t first = 0; first < ascending.size();) {
    std::size_t last = first;
    while (last + 1 < ascending.size() && ascending[last + 1] == ascending[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ascending[first]);
    if (last > first) text += fmt::format("-{}", ascending[last]);
    first = last + 1;
  }
  return text;
}

class Host {
 public:
  explicit Host(const JoinRequest& request)
      : request_(request), join_due_(after(request.join_s)), seats_(static_cast<std::size_t>(request.size)) {}

  JoinedRanks run() {
    open_gate();
    const int guest_count = request_.size - 1;
    while (seated_count_ < guest_count) {
      if (Clock::now() >= join_due_) end_for_all(ErrorCode::peer_lost, missing_text());
      round(join_due_);
    }
    JoinedRanks joined = hand_out_table();
    const Clock::time_point confirm_due = after(request_.confirm_s);
    while (confirmed_count_ < guest_count) {
      if (Clock::now() >= confirm_due) end_for_all(ErrorCode::peer_lost, unconfirmed_text());
      round(confirm_due);
    }
    round(Clock::now());  // who is still connected now was alive while all the others opened its process id
    say_to_all(join_message(JoinWord::go, request_));
    listen_at(joined.door.get(), visitors_max);
    return joined;
  }

 private:
  struct Visitor {
    detail::UniqueFd socket;
    pid_t pid = 0;
    Clock::time_point hello_due;
  };

  struct Seat {
    detail::UniqueFd socket;
    pid_t pid = 0;
    bool confirmed = false;
  };

  Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }

  // The door is bound first, and so a second rank 0 of a job that joins or runs is found out here.
  void open_gate() {
    const Clock::time_point due = after(std::min(request_.handover_s, request_.join_s));
    for (;;) {
      if (!door_) door_ = bind_to(door_address(request_));
      if (door_ && !gate_) gate_ = bind_to(gate_address(request_));
      if (gate_) break;
      if (Clock::now() >= due) refuse_second_host();
      ::poll(nullptr, 0, 20);
    }
    listen_at(gate_.get(), static_cast<int>(visitors_max) + request_.size);
  }

  [[noreturn]] void refuse_second_host() const {
    std::string holder = "a process of another user";
    for (const std::string& address : {gate_address(request_), door_address(request_)}) {
      const detail::UniqueFd other = connect_to(address);
      if (!other) continue;
      const PeerCredentials found = peer_credentials(other.get());
      holder =
          found.uid == ::geteuid() ? fmt::format("pid {}", found.pid) : fmt::format("a process of user {}", found.uid);
      break;
    }
    throw Error(ErrorCode::mismatch,
                fmt::format("job '{}' has a rank 0 already ({}): pid {} is a second one; give each job "
                            "a name of its own",
                            request_.job, holder, ::getpid()));
  }

  // One wait for whatever comes first: a visitor, a word, an end, or a deadline.
  void round(Clock::time_point due) {
    std::vector<pollfd> polled = {{gate_.get(), POLLIN, 0}};
    for (const Visitor& visitor : visitors_) {
      polled.push_back({visitor.socket.get(), POLLIN, 0});
      due = std::min(due, visitor.hello_due);
    }
    const std::size_t visitor_count = visitors_.size();
    for (const Seat& seat : seats_)
      polled.push_back({seat.socket.get(), POLLIN, 0});  // a negative descriptor is skipped
    if (::poll(polled.data(), polled.size(), poll_timeout_ms(due)) < 0) {
      if (errno == EINTR) return;
      end_for_all(ErrorCode::io, fmt::format("rank 0: poll: {}", std::strerror(errno)));
    }
    for (int rank = 1; rank < request_.size; ++rank) {
      if (polled[1 + visitor_count + static_cast<std::size_t>(rank)].revents != 0) hear_seat(rank);
    }
    for (std::size_t i = 0; i < visitor_count; ++i) {
      Visitor& visitor = visitors_[i];
      const bool spoke = polled[1 + i].revents != 0;
      if (spoke) hear_visitor(visitor);
      if (!spoke && Clock::now() >= visitor.hello_due) visitor.socket = {};
    }
    std::erase_if(visitors_, [](const Visitor& visitor) { return !visitor.socket; });
    if (polled[0].revents != 0) admit();
  }

  void admit() {
    for (;;) {
      detail::UniqueFd socket(::accept4(gate_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        if (errno == EAGAIN) return;
        if (errno == EINTR || errno == ECONNABORTED) continue;
        end_for_all(ErrorCode::io, fmt::format("rank 0: accepting rank's connections: {}", std::strerror(errno)));
      }
      const PeerCredentials peer = peer_credentials(socket.get());
      if (peer.uid != ::geteuid()) continue;
      if (visitors_.size() == visitors_max) visitors_.erase(visitors_.begin());
      visitors_.push_back({std::move(socket), peer.pid, after(request_.hello_s)});
    }
  }

  // Seats the visitor or sends it away; its socket is empty afterwards, unless it was a false alarm.
  void hear_visitor(Visitor& visitor) {
    JoinMessage hello;
    const Arrival arrival = receive_message(visitor.socket.get(), hello);
    if (arrival == Arrival::nothing_yet) return;
    detail::UniqueFd socket = std::move(visitor.socket);
    if (arrival != Arrival::message || hello.header.word != JoinWord::hello) return;

    const std::string reason = reason_against(hello.header, visitor.pid);
    if (!reason.empty()) {
      last_refusal_ = reason;
      JoinMessage refused = join_message(JoinWord::refused, request_);
      refused.header.code = ErrorCode::mismatch;
      refused.text = reason;
      send_message(socket.get(), refused);
      return;
    }
    if (!send_message(socket.get(), join_message(JoinWord::seated, request_))) return;
    seat(hello.header.rank) = {std::move(socket), visitor.pid, false};
    ++seated_count_;
  }

  // Empty: it may take its seat.
  std::string reason_against(const JoinHeader& hello, pid_t pid) {
    if (hello.version != join_version) {
      return fmt::format(
          "pid {} speaks version {} of the join and rank 0 version {}: all ranks must run the same build", pid,
          hello.version, join_version);
    }
    const std::string who = fmt::format("rank {} (pid {})", hello.rank, pid);
    if (hello.pid != pid) {
      return fmt::format("{} calls itself pid {}: it is in another process namespace than rank 0", who, hello.pid);
    }
    if (hello.size != request_.size) {
      return fmt::format("{} says that the world has {} ranks, rank 0 (pid {}) says {}", who, hello.size, ::getpid(),
                         request_.size);
    }
    if (hello.rank < 1 || hello.rank >= request_.size) {
      return fmt::format("{} is no rank that this world of {} waits for", who, request_.size);
    }
    if (seat(hello.rank).pid != 0) {
      return fmt::format("{} is a second process with this rank: pid {} came first", who, seat(hello.rank).pid);
    }
    return {};
  }

  void hear_seat(int rank) {
    Seat& speaker = seat(rank);
    JoinMessage message;
    const Arrival arrival = receive_message(speaker.socket.get(), message);
    if (arrival == Arrival::nothing_yet) return;
    if (arrival == Arrival::closed) {
      end_for_all(ErrorCode::peer_lost,
                  fmt::format("rank {} (pid {}) ended while the ranks joined", rank, speaker.pid));
    }
    if (arrival == Arrival::message && message.header.word == JoinWord::failed) {
      end_for_all(ErrorCode::peer_lost, message.text);
    }
    if (arrival == Arrival::garbage || message.header.word != JoinWord::confirmed || speaker.confirmed) {
      end_for_all(ErrorCode::mismatch, fmt::format("rank {} (pid {}) said what nobody asked for", rank, speaker.pid));
    }
    speaker.confirmed = true;
    ++confirmed_count_;
  }

  JoinedRanks hand_out_table() {
    JoinMessage table = join_message(JoinWord::table, request_);
    table.segment = detail::UniqueFd(::memfd_create("strata", MFD_CLOEXEC));
    if (!table.segment) {
      end_for_all(ErrorCode::io, fmt::format("rank 0: memfd_create: {}", std::strerror(errno)));
    }
    seat(0).pid = ::getpid();
    for (const Seat& seat : seats_) table.pids.push_back(seat.pid);
    say_to_all(table);

    JoinedRanks joined;
    joined.size = request_.size;
    joined.peer_pids.assign(table.pids.begin(), table.pids.end());
    joined.peer_pidfds.resize(seats_.size());
    try {
      for (int rank = 1; rank < request_.size; ++rank) {
        joined.peer_pidfds[static_cast<std::size_t>(rank)] = open_process(seat(rank).pid, rank);
      }
    } catch (const Error& error) {
      end_for_all(error.code(), fmt::format("rank 0 could not join: {}", error.what()));
    }
    joined.segment = std::move(table.segment);
    joined.door = std::move(door_);
    return joined;
  }

  void say_to_all(const JoinMessage& message) {
    for (int rank = 1; rank < request_.size; ++rank) {
      const Seat& hearer = seat(rank);
      if (hearer.socket && !send_message(hearer.socket.get(), message) && message.header.word != JoinWord::failed) {
        end_for_all(ErrorCode::peer_lost,
                    fmt::format("rank {} (pid {}) ended while the ranks joined", rank, hearer.pid));
      }
    }
  }

  [[noreturn]] void end_for_all(ErrorCode code, const std::string& text) {
    JoinMessage failed = join_message(JoinWord::failed, request_);
    failed.header.code = code;
    failed.text = text;
    say_to_all(failed);
    throw Error(code, text);
  }

  std::string missing_text() {
    std::vector<int> missing;
    for (int rank = 1; rank < request_.size; ++rank) {
      if (seat(rank).pid == 0) missing.push_back(rank);
    }
    const std::string refusal = last_refusal_.empty() ? "" : fmt::format("; refused was: {}", last_refusal_);
    return fmt::format("rank {} of {} did not come within {} s to job '{}'{}", join_ranges(missing), request_.size,
                       request_.join_s, request_.job, refusal);
  }

  std::string unconfirmed_text() {
    std::vector<int> silent;
    for (int rank = 1; rank < request_.size; ++rank) {
      if (!seat(rank).confirmed) silent.push_back(rank);
    }
    return fmt::format("rank {} of {} came, but was silent for {} s while the ranks joined", join_ranges(silent),
                       request_.size, request_.confirm_s);
  }

  const JoinRequest& request_;
  const Clock::time_point join_due_;
  detail::UniqueFd door_;
  detail::UniqueFd gate_;
  std::vector<Visitor> visitors_;
  std::vector<Seat> seats_;  // by rank; that of rank 0 is only a process id
  int seated_count_ = 0;
  int confirmed_count_ = 0;
  std::string last_refusal_;
};

}  // namespace

JoinedRanks join_as_host(const JoinRequest& request) { return Host(request).run(); }

JoinedRanks join_local_ranks(const JoinRequest& request) {
  return request.rank == 0 ? join_as_host(request) : join_as_guest(request);
}

}  // namespace strata::sharding
