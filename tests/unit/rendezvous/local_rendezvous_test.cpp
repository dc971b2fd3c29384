#include "sharding/rendezvous/local_rendezvous.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <thread>
#include <vector>

#include "support/process_fork.h"

namespace strata::sharding {
namespace {

using test::ForkedCall;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// A job name that no other test, and no other run of this one, has.
std::string fresh_job() {
  static int count = 0;
  return fmt::format("test-{}-{}", ::getpid(), ++count);
}

JoinRequest request(const std::string& job, int rank, int size, double join_s = 10) {
  return {.rank = rank, .size = size, .job = job, .join_s = join_s};
}

// Joins, and says what it found: "joined", and all pids.
std::string join_and_tell(const JoinRequest& request) {
  const JoinedRanks joined = join_local_ranks(request);
  std::string text = "joined";
  for (int rank = 0; rank < joined.size; ++rank) {
    const auto place = static_cast<std::size_t>(rank);
    text += fmt::format(" {}", joined.peer_pids[place]);
    const bool has_pidfd = static_cast<bool>(joined.peer_pidfds[place]);
    if (has_pidfd == (rank == request.rank)) text += "(pidfd?)";
  }
  if (joined.rank != request.rank) text += " rank?";
  struct stat found = {};
  if (::fstat(joined.segment.get(), &found) != 0 || found.st_size != 0) text += " segment?";
  return text + fmt::format(" in {}", found.st_ino);
}

ForkedCall start(const JoinRequest& request) {
  return ForkedCall([request] { return join_and_tell(request); });
}

std::vector<ForkedCall> start_all(const std::string& job, int size) {
  std::vector<ForkedCall> ranks;
  for (int rank = size - 1; rank >= 0; --rank) ranks.push_back(start(request(job, rank, size)));
  return ranks;
}

detail::UniqueFd connect_stranger(const std::string& job) {
  const JoinRequest target = request(job, 0, 2);
  const Clock::time_point due = after(5);
  while (Clock::now() < due) {
    detail::UniqueFd socket = connect_to(gate_address(target));
    if (socket) return socket;
    std::this_thread::yield();
  }
  ADD_FAILURE() << "nobody listens for job " << job;
  return {};
}

bool closed_by_peer(int socket, double within_s) {
  JoinMessage message;
  return wait_for(socket, POLLIN, after(within_s)) && receive_message(socket, message) == Arrival::closed;
}

TEST(LocalRendezvous, AllRanksShareOneSegmentAndKnowEachOther) {
  for (const int size : {2, 3, 7}) {
    const std::string job = fresh_job();
    std::vector<ForkedCall> ranks = start_all(job, size);
    std::string pids;
    for (auto rank = ranks.rbegin(); rank != ranks.rend(); ++rank) pids += fmt::format(" {}", rank->pid());
    const std::string first = ranks[0].result();
    EXPECT_THAT(first, StartsWith("joined" + pids + " in "));
    for (std::size_t i = 1; i < ranks.size(); ++i) EXPECT_EQ(ranks[i].result(), first);
  }
}

TEST(LocalRendezvous, WhoStartsFirstDoesNotMatter) {
  const std::string job = fresh_job();
  ForkedCall guest = start(request(job, 1, 2));
  ::poll(nullptr, 0, 100);  // long enough that it finds nobody; a shorter wait would only test less
  ForkedCall host = start(request(job, 0, 2));
  EXPECT_THAT(guest.result(), StartsWith("joined"));
  EXPECT_THAT(host.result(), StartsWith("joined"));
}

TEST(LocalRendezvous, SameProcessesJoinAgain) {
  const std::string job = fresh_job();
  const auto twice = [&](int rank) {
    return ForkedCall([=] {
      for (int i = 0; i < 20; ++i) join_local_ranks(request(job, rank, 3));
      return std::string("done");
    });
  };
  ForkedCall two = twice(2), one = twice(1), zero = twice(0);
  EXPECT_EQ(zero.result(), "done");
  EXPECT_EQ(one.result(), "done");
  EXPECT_EQ(two.result(), "done");
}

TEST(LocalRendezvous, JobsDoNotMeet) {
  const std::string blue = fresh_job(), green = fresh_job();
  std::vector<ForkedCall> blue_ranks = start_all(blue, 3), green_ranks = start_all(green, 3);
  const std::string in_blue = blue_ranks[0].result(), in_green = green_ranks[0].result();
  EXPECT_NE(in_blue, in_green);
  EXPECT_EQ(blue_ranks[1].result(), in_blue);
  EXPECT_EQ(blue_ranks[2].result(), in_blue);
  EXPECT_EQ(green_ranks[1].result(), in_green);
  EXPECT_EQ(green_ranks[2].result(), in_green);
}

TEST(LocalRendezvous, LongJobNamesStayApart) {
  const std::string base(3000, 'x');
  EXPECT_NE(gate_address(request(base + "1", 0, 2)), gate_address(request(base + "2", 0, 2)));
  EXPECT_LT(gate_address(request(base, 0, 2)).size(), sizeof(sockaddr_un::sun_path));
  EXPECT_NE(gate_address({.job = "a", .port = 1}), gate_address({.job = "a", .port = 2}));
}

TEST(LocalRendezvous, MissingRanksAreNamedOnAllThatCame) {
  const std::string job = fresh_job();
  ForkedCall host = start(request(job, 0, 6, 0.5));
  ForkedCall guest = start(request(job, 3, 6, 0.5));
  const auto says_so = AllOf(HasSubstr("peer_lost"), HasSubstr("rank 1-2, 4-5 of 6 did not come within 0.5 s"));
  EXPECT_THAT(host.result(), says_so);
  EXPECT_THAT(guest.result(), says_so);
}

TEST(LocalRendezvous, RankZeroThatDoesNotComeIsNamed) {
  ForkedCall guest = start(request(fresh_job(), 1, 2, 0.3));
  EXPECT_THAT(guest.result(), AllOf(HasSubstr("peer_lost"), HasSubstr("rank 0 of job"), HasSubstr("0.3 s")));
}

TEST(LocalRendezvous, WrongWorldSizeIsRefusedAndTheJobGoesOn) {
  const std::string job = fresh_job();
  ForkedCall host = start(request(job, 0, 3));
  ForkedCall extra = start(request(job, 3, 4));
  EXPECT_THAT(extra.result(),
              AllOf(HasSubstr("mismatch"), HasSubstr("rank 3"), HasSubstr("4 ranks"), HasSubstr("says 3")));
  ForkedCall one = start(request(job, 1, 3)), two = start(request(job, 2, 3));
  const std::string found = host.result();
  EXPECT_THAT(found, StartsWith("joined"));
  EXPECT_EQ(one.result(), found);
  EXPECT_EQ(two.result(), found);
}

TEST(LocalRendezvous, SecondProcessWithARankIsRefusedAndTheJobGoesOn) {
  const std::string job = fresh_job();
  ForkedCall host = start(request(job, 0, 3));
  ForkedCall first = start(request(job, 1, 3)), second = start(request(job, 1, 3));
  // One of them is refused at once, while the other waits for rank 2.
  std::array<pollfd, 2> ends = {pollfd{first.output(), POLLIN, 0}, pollfd{second.output(), POLLIN, 0}};
  ASSERT_EQ(::poll(ends.data(), ends.size(), 10'000), 1);
  ForkedCall two = start(request(job, 2, 3));
  const std::string found = host.result();
  EXPECT_THAT(found, StartsWith("joined"));
  const std::string a = first.result(), b = second.result();
  EXPECT_THAT((std::vector<std::string>{a, b}), testing::UnorderedElementsAre(found, HasSubstr("mismatch")));
  EXPECT_EQ(two.result(), found);
}

TEST(LocalRendezvous, LateRankIsToldThatTheJobRuns) {
  const std::string job = fresh_job();
  const JoinRequest host_request = request(job, 0, 2);
  std::thread guest([&] { join_as_guest(request(job, 1, 2)); });
  const JoinedRanks running = join_as_host(host_request);
  guest.join();
  ForkedCall late = start(request(job, 1, 2, 0.3));
  EXPECT_THAT(late.result(),
              AllOf(HasSubstr("mismatch"), HasSubstr("runs already"), HasSubstr(fmt::format("pid {}", ::getpid()))));
  ForkedCall second_host = start(request(job, 0, 2, 0.3));
  EXPECT_THAT(second_host.result(), AllOf(HasSubstr("mismatch"), HasSubstr(fmt::format("pid {}", ::getpid()))));
}

TEST(LocalRendezvous, SecondRankZeroIsRefusedAndTheJobGoesOn) {
  const std::string job = fresh_job();
  ForkedCall first = start(request(job, 0, 2));
  const detail::UniqueFd knock = connect_stranger(job);  // it listens
  ForkedCall second = start(request(job, 0, 2, 0.3));
  EXPECT_THAT(second.result(),
              AllOf(HasSubstr("mismatch"), HasSubstr("rank 0 already"), HasSubstr(fmt::format("pid {}", first.pid()))));
  ForkedCall guest = start(request(job, 1, 2));
  EXPECT_THAT(first.result(), StartsWith("joined"));
  EXPECT_THAT(guest.result(), StartsWith("joined"));
}

TEST(LocalRendezvous, RankThatDiesWhileOthersJoinEndsTheJoin) {
  const std::string job = fresh_job();
  ForkedCall host = start(request(job, 0, 3));
  ForkedCall guest = start(request(job, 2, 3, 0.5));
  // A rank that is seated, and then gone.
  const JoinRequest dying = request(job, 1, 3);
  ForkedCall seated([&] {
    const detail::UniqueFd socket = connect_stranger(job);
    send_message(socket.get(), join_message(JoinWord::hello, dying));
    wait_for(socket.get(), POLLIN, after(5));
    return std::string();
  });
  seated.result();
  const auto says_so =
      AllOf(HasSubstr("peer_lost"), HasSubstr("rank 1 (pid"), HasSubstr("ended while the ranks joined"));
  EXPECT_THAT(host.result(), says_so);
  // The guest may have come before or after; then rank 0 is not there any more.
  EXPECT_THAT(guest.result(12), HasSubstr("peer_lost"));
}

TEST(LocalRendezvous, RankZeroThatDiesIsNamed) {
  const std::string job = fresh_job();
  ForkedCall host = start(request(job, 0, 3));
  const JoinRequest me = request(job, 1, 3);
  const detail::UniqueFd socket = connect_stranger(job);
  ASSERT_TRUE(send_message(socket.get(), join_message(JoinWord::hello, me)));
  ASSERT_TRUE(wait_for(socket.get(), POLLIN, after(5)));  // seated; so a guest that comes now is behind us
  ForkedCall guest = start(request(job, 2, 3, 0.3));
  host.signal(SIGKILL);
  host.result();
  EXPECT_THAT(guest.result(), AllOf(HasSubstr("peer_lost"), HasSubstr("rank 0")));
}

TEST(LocalRendezvous, SilentRankIsNamed) {
  const std::string job = fresh_job();
  JoinRequest impatient = request(job, 0, 2);
  impatient.confirm_s = 0.3;
  ForkedCall host = start(impatient);
  const detail::UniqueFd socket = connect_stranger(job);
  ASSERT_TRUE(send_message(socket.get(), join_message(JoinWord::hello, request(job, 1, 2))));
  EXPECT_THAT(host.result(), AllOf(HasSubstr("peer_lost"), HasSubstr("rank 1 of 2 came, but was silent for 0.3 s")));
}

TEST(LocalRendezvous, SilentRankZeroIsNamed) {
  const std::string job = fresh_job();
  const JoinRequest host = request(job, 0, 2);
  const detail::UniqueFd gate = bind_to(gate_address(host));
  listen_at(gate.get(), 1);
  JoinRequest impatient = request(job, 1, 2);
  impatient.confirm_s = 0.3;
  EXPECT_THAT(start(impatient).result(),
              AllOf(HasSubstr("peer_lost"), HasSubstr(fmt::format("rank 0 (pid {})", ::getpid()))));
}

TEST(LocalRendezvous, StrangersAreSentAwayAndTheJobGoesOn) {
  const std::string job = fresh_job();
  JoinRequest hosting = request(job, 0, 2);
  hosting.hello_s = 1;
  ForkedCall host = start(hosting);
  const detail::UniqueFd silent = connect_stranger(job);
  const Clock::time_point silent_since = Clock::now();

  for (const std::string& noise :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(1, '\x16'), std::string(100'000, 'x'),
        std::string(sizeof(JoinHeader), '\xff'), std::string(sizeof(JoinHeader) - 1, '\0')}) {
    const detail::UniqueFd stranger = connect_stranger(job);
    ASSERT_EQ(::send(stranger.get(), noise.data(), noise.size(), MSG_NOSIGNAL), static_cast<ssize_t>(noise.size()));
    EXPECT_TRUE(closed_by_peer(stranger.get(), 2)) << noise.size() << " bytes of noise";
  }
  // A rank's word out of order is noise, too, and so is a hello with something behind it.
  const detail::UniqueFd eager = connect_stranger(job);
  ASSERT_TRUE(send_message(eager.get(), join_message(JoinWord::go, request(job, 1, 2))));
  EXPECT_TRUE(closed_by_peer(eager.get(), 2));
  const detail::UniqueFd talker = connect_stranger(job);
  JoinMessage long_hello = join_message(JoinWord::hello, request(job, 1, 2));
  long_hello.text = "and more";
  ASSERT_TRUE(send_message(talker.get(), long_hello));
  EXPECT_TRUE(closed_by_peer(talker.get(), 2));

  EXPECT_TRUE(closed_by_peer(silent.get(), 3));
  EXPECT_GE(Clock::now() - silent_since, std::chrono::duration<double>(0.9));
  ForkedCall guest = start(request(job, 1, 2));
  EXPECT_THAT(host.result(), StartsWith("joined"));
  EXPECT_THAT(guest.result(), StartsWith("joined"));
}

TEST(LocalRendezvous, CrowdOfSilentStrangersDoesNotKeepARankOut) {
  const std::string job = fresh_job();
  ForkedCall host = start(request(job, 0, 2));
  std::vector<detail::UniqueFd> crowd;
  for (int i = 0; i < 600; ++i) crowd.push_back(connect_stranger(job));
  ForkedCall guest = start(request(job, 1, 2));
  EXPECT_THAT(host.result(4), StartsWith("joined"));
  EXPECT_THAT(guest.result(4), StartsWith("joined"));
}

TEST(LocalRendezvous, AnotherVersionIsRefused) {
  const std::string job = fresh_job();
  ForkedCall host = start(request(job, 0, 2, 0.3));
  const detail::UniqueFd socket = connect_stranger(job);
  JoinMessage hello = join_message(JoinWord::hello, request(job, 1, 2));
  hello.header.version += 1;
  ASSERT_TRUE(send_message(socket.get(), hello));
  ASSERT_TRUE(wait_for(socket.get(), POLLIN, after(2)));
  JoinMessage answer;
  ASSERT_EQ(receive_message(socket.get(), answer), Arrival::message);
  EXPECT_EQ(answer.header.word, JoinWord::refused);
  EXPECT_THAT(answer.text, HasSubstr("same build"));
  EXPECT_THAT(host.result(), AllOf(HasSubstr("rank 1 of 2 did not come"), HasSubstr("same build")));
}

TEST(LocalRendezvous, NoDescriptorIsLeft) {
  const auto count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const std::string job = fresh_job();
  const auto before = count();
  for (int i = 0; i < 3; ++i) {
    std::thread guest([&] { join_as_guest(request(job, 1, 2)); });
    join_as_host(request(job, 0, 2));
    guest.join();
  }
  EXPECT_EQ(count(), before);
}

}  // namespace
}  // namespace strata::sharding
