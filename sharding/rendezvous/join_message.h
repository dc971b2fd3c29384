// What ranks say to each other while they join: whole messages over a local socket.
//
//   rank k -> rank 0   hello      who I am, in which world
//   rank 0 -> rank k   seated     you are expected; wait for the others
//                      refused    why not; the job goes on without you
//   (all are there)
//   rank 0 -> rank k   table      all process ids, and the segment's descriptor
//   rank k -> rank 0   confirmed  I watch all of these processes
//   (all have confirmed, and no connection has ended: the ids still meant these processes when they were opened)
//   rank 0 -> rank k   go
//   any    -> any      failed     why the join is over for everybody
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <strata/detail/unique_fd.h>
#include <strata/error.h>

namespace strata::sharding {

using Clock = std::chrono::steady_clock;

// Whom a process wants to meet, and how long it waits.
struct JoinRequest {
  int rank = 0;
  int size = 2;  // REQUIRES 0 <= rank < size, size >= 2
  std::string job;
  int port = 0;
  double join_s = 60;     // for all ranks to come
  double hello_s = 5;     // for a visitor to say who it is
  double confirm_s = 10;  // for a seated rank, or rank 0, to answer
  double handover_s = 5;  // for an earlier job of the same name to end
};

enum class JoinWord : std::uint32_t { hello = 1, seated, refused, table, confirmed, go, failed };

// A part of the wire format: fixed size, one host's byte order (both ends are on it).
struct JoinHeader {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  JoinWord word = JoinWord::hello;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int32_t pid = 0;            // the sender's, as it sees itself
  ErrorCode code = ErrorCode::io;  // of refused and failed
  std::uint64_t digest = 0;        // reserved for what all ranks must agree on at start
};
static_assert(sizeof(JoinHeader) == 40);

inline constexpr std::uint64_t join_magic = 0x6e696f6a'61727473;  // "strajoin"
inline constexpr std::uint32_t join_version = 1;

struct JoinMessage {
  JoinHeader header;
  std::vector<std::int32_t> pids;  // of table: one a rank
  std::string text;                // of refused and failed; a longer one is cut at 4 KiB
  detail::UniqueFd segment;        // of table
};

struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
};

// The abstract names of a job, without their leading zero: user, port and job. A long job name is cut and hashed. Rank
// 0 listens at the gate while the ranks join, and at the door afterwards, for as long as the job runs; nothing is said
// there: whoever can connect to it has come too late.
std::string gate_address(const JoinRequest& request);
std::string door_address(const JoinRequest& request);

// A non-blocking socket with this name; empty when the name is taken. Throws Error{io}.
detail::UniqueFd bind_to(const std::string& address);
void listen_at(int socket, int backlog);

// A non-blocking socket that somebody listens to; empty when nobody does (yet). Throws Error{io}.
detail::UniqueFd connect_to(const std::string& address);

PeerCredentials peer_credentials(int socket);

JoinMessage join_message(JoinWord word, const JoinRequest& sender);

// False when the peer has gone or does not read. Never blocks.
bool send_message(int socket, const JoinMessage& message);

enum class Arrival : std::uint8_t { message, nothing_yet, closed, garbage };
// Never blocks; takes at most one message, and at most 20 KiB.
Arrival receive_message(int socket, JoinMessage& message);

// True when one of `events` (POLLIN ...) is there; false when the deadline has passed.
bool wait_for(int fd, short events, Clock::time_point deadline);
Clock::time_point after(double seconds);
int poll_timeout_ms(Clock::time_point deadline);  // rounded up, so that a poll does not spin

// The process as a descriptor, which becomes readable when it ends. Throws Error{io}, or peer_lost when there is none.
detail::UniqueFd open_process(pid_t pid, int rank);

}  // namespace strata::sharding
