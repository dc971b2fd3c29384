#include "sharding/rendezvous/join_message.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

#include "sharding/rendezvous/rank_environment.h"

namespace strata::sharding {
namespace {

constexpr std::size_t text_bytes_max = 4096;
constexpr std::size_t body_bytes_max = world_size_max * sizeof(std::int32_t);
static_assert(body_bytes_max >= text_bytes_max);

struct Address {
  sockaddr_un name = {};
  socklen_t length = 0;
};

Address socket_address(const std::string& text) {
  Address address;
  address.name.sun_family = AF_UNIX;
  // An abstract name: a leading zero, then exactly the text.
  std::copy(text.begin(), text.end(), address.name.sun_path + 1);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return address;
}

const sockaddr* generic(const Address& address) { return reinterpret_cast<const sockaddr*>(&address.name); }

[[noreturn]] void fail(const char* act, const std::string& address) {
  throw Error(ErrorCode::io, fmt::format("{} of the local socket '@{}': {}", act, address, std::strerror(errno)));
}

// Whole messages with their boundaries: nothing to reassemble, and a stranger's half message is no message.
detail::UniqueFd open_socket(const std::string& address) {
  detail::UniqueFd made(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) fail("making", address);
  return made;
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

std::string job_name(const JoinRequest& request) {
  constexpr std::size_t bytes_max = 64;
  std::string job = request.job;
  if (job.size() > bytes_max) job = fmt::format("{}~{:016x}", job.substr(0, bytes_max - 17), fnv1a(job));
  return fmt::format("{}-{}-{}", ::geteuid(), request.port, job);
}

bool legal(const JoinHeader& header) {
  return header.magic == join_magic && header.word >= JoinWord::hello && header.word <= JoinWord::failed;
}

bool read_body(JoinMessage& message, const std::byte* body, std::size_t bytes) {
  message.pids.clear();
  message.text.clear();
  switch (message.header.word) {
    case JoinWord::table:
      if (message.header.size < 1 || bytes != static_cast<std::size_t>(message.header.size) * sizeof(std::int32_t))
        return false;
      message.pids.resize(static_cast<std::size_t>(message.header.size));
      std::memcpy(message.pids.data(), body, bytes);
      return static_cast<bool>(message.segment);
    case JoinWord::refused:
    case JoinWord::failed:
      if (bytes > text_bytes_max) return false;
      message.text.assign(reinterpret_cast<const char*>(body), bytes);
      return true;
    default: return bytes == 0;
  }
}

// The first descriptor that came along; any other is closed.
void take_descriptors(msghdr& envelope, detail::UniqueFd& first) {
  cmsghdr* rights = CMSG_FIRSTHDR(&envelope);
  if (!rights || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) return;
  const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof(int), sizeof(fd));
    detail::UniqueFd owned(fd);
    if (!first) first = std::move(owned);
  }
}

}  // namespace

std::string gate_address(const JoinRequest& request) { return fmt::format("strata-gate-{}", job_name(request)); }
std::string door_address(const JoinRequest& request) { return fmt::format("strata-door-{}", job_name(request)); }

detail::UniqueFd bind_to(const std::string& address) {
  detail::UniqueFd socket = open_socket(address);
  const Address name = socket_address(address);
  if (::bind(socket.get(), generic(name), name.length) == 0) return socket;
  if (errno == EADDRINUSE) return {};
  fail("binding", address);
}

void listen_at(int socket, int backlog) {
  if (::listen(socket, backlog) != 0) fail("listening", "strata");
}

detail::UniqueFd connect_to(const std::string& address) {
  detail::UniqueFd socket = open_socket(address);
  const Address name = socket_address(address);
  if (::connect(socket.get(), generic(name), name.length) == 0) return socket;
  // EAGAIN: the queue of the listener is full; EPROTOTYPE: the name belongs to something else.
  if (errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR || errno == EPROTOTYPE) return {};
  fail("connecting", address);
}

PeerCredentials peer_credentials(int socket) {
  ucred found = {};
  socklen_t length = sizeof(found);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &length) != 0) fail("asking for the peer", "");
  return {found.pid, found.uid};
}

JoinMessage join_message(JoinWord word, const JoinRequest& sender) {
  JoinMessage message;
  message.header.magic = join_magic;
  message.header.version = join_version;
  message.header.word = word;
  message.header.rank = sender.rank;
  message.header.size = sender.size;
  message.header.pid = ::getpid();
  return message;
}

bool send_message(int socket, const JoinMessage& message) {
  const bool has_pids = !message.pids.empty();
  const void* body = has_pids ? static_cast<const void*>(message.pids.data()) : message.text.data();
  const std::size_t body_bytes =
      has_pids ? message.pids.size() * sizeof(std::int32_t) : std::min(message.text.size(), text_bytes_max);
  std::array<iovec, 2> parts = {iovec{const_cast<JoinHeader*>(&message.header), sizeof(JoinHeader)},
                                iovec{const_cast<void*>(body), body_bytes}};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control = {};
  msghdr envelope = {};
  envelope.msg_iov = parts.data();
  envelope.msg_iovlen = parts.size();
  if (message.segment) {
    envelope.msg_control = control.data();
    envelope.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&envelope);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = message.segment.get();
    std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &envelope, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof(JoinHeader) + body_bytes);
}

Arrival receive_message(int socket, JoinMessage& message) {
  std::array<std::byte, body_bytes_max> body;
  std::array<iovec, 2> parts = {iovec{&message.header, sizeof(JoinHeader)}, iovec{body.data(), body.size()}};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control = {};
  msghdr envelope = {};
  envelope.msg_iov = parts.data();
  envelope.msg_iovlen = parts.size();
  envelope.msg_control = control.data();
  envelope.msg_controllen = control.size();
  ssize_t bytes = -1;
  do {
    bytes = ::recvmsg(socket, &envelope, MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && errno == EINTR);
  if (bytes < 0) return errno == EAGAIN ? Arrival::nothing_yet : Arrival::closed;

  // Whatever came along is taken into ownership first, so that a stranger's descriptors are closed again.
  message.segment = detail::UniqueFd();
  take_descriptors(envelope, message.segment);
  if (bytes == 0) return Arrival::closed;
  if (bytes < static_cast<ssize_t>(sizeof(JoinHeader)) || (envelope.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
      !legal(message.header)) {
    return Arrival::garbage;
  }
  const std::size_t body_bytes = static_cast<std::size_t>(bytes) - sizeof(JoinHeader);
  return read_body(message, body.data(), body_bytes) ? Arrival::message : Arrival::garbage;
}

int poll_timeout_ms(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

bool wait_for(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    pollfd entry = {fd, events, 0};
    const int ready = ::poll(&entry, 1, poll_timeout_ms(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw Error(ErrorCode::io, fmt::format("poll: {}", std::strerror(errno)));
    if (Clock::now() >= deadline) return false;
  }
}

Clock::time_point after(double seconds) {
  // A year bounds what a clock can hold.
  const double bounded = std::clamp(seconds, 0.0, 365.0 * 86400.0);
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(bounded));
}

detail::UniqueFd open_process(pid_t pid, int rank) {
  // Not pidfd_open(): some C libraries declare it without C linkage.
  detail::UniqueFd opened(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (opened) return opened;
  if (errno == ESRCH)
    throw Error(ErrorCode::peer_lost, fmt::format("rank {} (pid {}) ended while the ranks joined", rank, pid));
  throw Error(ErrorCode::io, fmt::format("watching rank {} (pid {}): {}", rank, pid, std::strerror(errno)));
}

}  // namespace strata::sharding
