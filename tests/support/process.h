// A program under test, and what the system knows of its processes.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include <strata/detail/unique_fd.h>

namespace strata::test {

enum class Terminal { none, controlling };

bool has_terminals();  // a bare container may have none

struct ProgramSetup {
  std::vector<std::string> environment;  // "NAME=value", beside this process's; "NAME" alone takes it away
  std::string input;
  Terminal terminal = Terminal::none;  // controlling: input, output and errors are a terminal, in a session of its own
};

// Its output goes to a file without a name, so that a full pipe never stops it.
class Program {
 public:
  explicit Program(const std::vector<std::string>& words, const ProgramSetup& setup = {});
  Program(Program&&) = delete;
  ~Program();  // kills it if it still runs

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  // Exit status, 128 + N when killed by signal N; -1 when it still runs after `deadline_s`.
  int wait(double deadline_s = 20);

  std::string output();  // so far; with a controlling terminal all that it showed
  std::string errors();
  bool wait_for_output(const std::string& text, std::size_t count = 1);  // false when it is not there in ten seconds
  void type(const std::string& keys) const;                              // REQUIRES a controlling terminal

 private:
  pid_t pid_ = -1;
  int status_ = -1;
  detail::UniqueFd output_;
  detail::UniqueFd errors_;
  detail::UniqueFd terminal_;
  std::string shown_;
};

std::size_t occurrences(const std::string& text, const std::string& word);

bool alive(pid_t pid);  // there, and no zombie
bool wait_until_dead(pid_t pid, double deadline_s);
std::vector<pid_t> children_of(pid_t pid);

// Once there are `count` of them; fewer when that takes longer than ten seconds.
std::vector<pid_t> wait_for_children(pid_t pid, std::size_t count);

// Living processes with `word` in their command line, this one apart.
std::vector<pid_t> processes_with(const std::string& word);
bool wait_until_none_with(const std::string& word, double deadline_s);

// A word that no other command line has.
std::string fresh_word();

}  // namespace strata::test
