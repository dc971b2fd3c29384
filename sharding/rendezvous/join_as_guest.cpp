#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sharding/rendezvous/local_rendezvous.h"

namespace strata::sharding {
namespace {

// Nothing tells when an abstract name appears: asking again, ever more rarely, is all there is.
class Retry {
 public:
  void pause() {
    ::poll(nullptr, 0, pause_ms_);
    pause_ms_ = std::min(2 * pause_ms_, 20);
  }

 private:
  int pause_ms_ = 1;
};

class Guest {
 public:
  explicit Guest(const JoinRequest& request) : request_(request), join_due_(after(request.join_s)) {}

  JoinedRanks run() {
    take_seat();
    // Rank 0 began to wait before it answered, so its verdict comes within its own join time.
    JoinMessage table = await(JoinWord::table, after(request_.join_s + request_.confirm_s));
    check(table);
    JoinedRanks joined;
    joined.rank = request_.rank;
    joined.size = request_.size;
    joined.segment = std::move(table.segment);
    joined.peer_pids.assign(table.pids.begin(), table.pids.end());
    joined.peer_pidfds.resize(table.pids.size());
    try {
      for (int rank = 0; rank < request_.size; ++rank) {
        const auto place = static_cast<std::size_t>(rank);
        if (rank != request_.rank) joined.peer_pidfds[place] = open_process(joined.peer_pids[place], rank);
      }
    } catch (const Error& error) {
      JoinMessage failed = join_message(JoinWord::failed, request_);
      failed.header.code = error.code();
      failed.text = fmt::format("rank {} could not join: {}", request_.rank, error.what());
      send_message(host_.get(), failed);
      throw;
    }
    if (!send_message(host_.get(), join_message(JoinWord::confirmed, request_))) host_has_gone();
    await(JoinWord::go, after(request_.join_s + request_.confirm_s));
    return joined;
  }

 private:
  void take_seat() {
    for (Retry retry; Clock::now() < join_due_; retry.pause()) {
      if (try_gate()) return;
      if (!host_) try_door();
    }
    if (door_seen_) too_late();
    if (strangers_uid_) {
      throw Error(ErrorCode::peer_lost,
                  fmt::format("rank 0 of job '{}' did not come within {} s; its name is taken by a "
                              "process of user {}, choose another job name",
                              request_.job, request_.join_s, *strangers_uid_));
    }
    throw Error(ErrorCode::peer_lost, fmt::format("rank 0 of job '{}' did not come within {} s of rank {}",
                                                  request_.job, request_.join_s, request_.rank));
  }

  // True when seated. False: ask again; host_ is set when somebody listens.
  bool try_gate() {
    host_ = connect_to(gate_address(request_));
    if (!host_) return false;
    const PeerCredentials host = peer_credentials(host_.get());
    if (host.uid != ::geteuid()) {
      strangers_uid_ = host.uid;
      return false;
    }
    host_pid_ = host.pid;
    door_seen_.reset();
    if (!send_message(host_.get(), join_message(JoinWord::hello, request_))) return false;
    const std::optional<JoinMessage> answer = receive(std::min(join_due_, after(request_.confirm_s)));
    if (!answer) return false;
    if (answer->header.word == JoinWord::seated) return true;
    refuse_nonsense(*answer, JoinWord::seated);
  }

  // A job of this name that runs already. It may be the one before this, about to end.
  void try_door() {
    const detail::UniqueFd door = connect_to(door_address(request_));
    const PeerCredentials keeper = door ? peer_credentials(door.get()) : PeerCredentials{};
    if (!door || keeper.uid != ::geteuid()) {
      door_seen_.reset();
      return;
    }
    door_pid_ = keeper.pid;
    if (!door_seen_) door_seen_ = Clock::now();
    if (Clock::now() - *door_seen_ < std::chrono::duration<double>(request_.handover_s)) return;
    too_late();
  }

  [[noreturn]] void too_late() const {
    throw Error(
        ErrorCode::mismatch,
        fmt::format("job '{}' runs already (its rank 0 is pid {}) with all of its ranks: this process (pid {}), which "
                    "says it is rank {} of {}, is one too many, or has another job's name",
                    request_.job, door_pid_, ::getpid(), request_.rank, request_.size));
  }

  // The next message; nothing when rank 0 closed the connection. Throws peer_lost when it is silent.
  std::optional<JoinMessage> receive(Clock::time_point due) {
    JoinMessage message;
    for (;;) {
      switch (receive_message(host_.get(), message)) {
        case Arrival::message: return message_or_failure(std::move(message));
        case Arrival::closed: return std::nullopt;
        case Arrival::garbage:
          throw Error(ErrorCode::mismatch, "rank 0 sent what is no message of this version's join");
        case Arrival::nothing_yet: break;
      }
      if (!wait_for(host_.get(), POLLIN, due)) {
        throw Error(ErrorCode::peer_lost,
                    fmt::format("rank 0 (pid {}) of job '{}' listens but does not answer", host_pid_, request_.job));
      }
    }
  }

  static JoinMessage message_or_failure(JoinMessage message) {
    if (message.header.word != JoinWord::refused && message.header.word != JoinWord::failed) return message;
    throw Error(message.header.code, message.text);
  }

  JoinMessage await(JoinWord word, Clock::time_point due) {
    std::optional<JoinMessage> message = receive(due);
    if (!message) host_has_gone();
    if (message->header.word != word) refuse_nonsense(*message, word);
    return *std::move(message);
  }

  [[noreturn]] static void refuse_nonsense(const JoinMessage& message, JoinWord expected) {
    throw Error(ErrorCode::mismatch,
                fmt::format("rank 0 said word {} of the join instead of {}: another version of strata?",
                            static_cast<unsigned>(message.header.word), static_cast<unsigned>(expected)));
  }

  [[noreturn]] void host_has_gone() const {
    throw Error(ErrorCode::peer_lost, fmt::format("rank 0 (pid {}) ended while the ranks joined", host_pid_));
  }

  void check(const JoinMessage& table) const {
    const bool same_host = table.header.pid == host_pid_ && table.pids[0] == host_pid_;
    if (table.header.size == request_.size && same_host) return;
    throw Error(ErrorCode::mismatch,
                fmt::format("rank 0 (pid {}) handed out a table of {} ranks by pid {}, not of {}: another "
                            "version of strata, or another process namespace?",
                            host_pid_, table.header.size, table.header.pid, request_.size));
  }

  const JoinRequest& request_;
  const Clock::time_point join_due_;
  detail::UniqueFd host_;
  pid_t host_pid_ = 0;
  std::optional<uid_t> strangers_uid_;
  std::optional<Clock::time_point> door_seen_;
  pid_t door_pid_ = 0;
};

}  // namespace

JoinedRanks join_as_guest(const JoinRequest& request) { return Guest(request).run(); }

}  // namespace strata::sharding
