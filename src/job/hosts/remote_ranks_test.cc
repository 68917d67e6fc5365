// The head of a hostfile's job against ranks that are shell scripts.

#include "job/hosts/remote_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <map>

#include "base/file.h"
#include "job/test_folder.h"

namespace graphpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::MatchesRegex;

class RemoteRanks : public ::testing::Test {
 protected:
  RemoteRanks() {
    // Stands in for ssh: the "host" is this machine.
    write_program("shell", "#!/bin/sh\nexport HOST=\"$1\"\nexec sh -c \"$2\"\n");
    job_.shell = {folder_.path() + "/shell"};
    job_.hosts = {{"a", 2}, {"b c", 1}};
    job_.host_of = {0, 0, 1};
    job_.folder = folder_.path();
    job_.token = "secret";
  }

  // The script stands for `graphpipe train`; it has read the token by then.
  LaunchResult launch(const std::string& script) {
    const std::string program = folder_.path() + "/rank";
    write_program("rank", "#!/bin/sh\nread -r token\n" + script);
    job_.command = {program, "it's", "a b"};
    return run_remote(
        job_, [this](const std::string& line) { lines_.push_back(line); },
        [this](int rank, const std::string& line) { error_lines_[rank].push_back(line); });
  }

  void expect_nothing_left() {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  TestFolder folder_;
  RemoteJob job_;
  std::vector<std::string> lines_;
  std::map<int, std::vector<std::string>> error_lines_;

 private:
  void write_program(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    write_file(path, text);
    chmod(path.c_str(), 0700);
  }
};

TEST_F(RemoteRanks, EachIsToldWhoItIsAndWhereRank0Listens) {
  const LaunchResult result = launch(R"(
if [ $GRAPHPIPE_RANK = 0 ]; then
  echo '{"rendezvous": "10.0.0.1 4321"}'
  echo '{"iteration": 0}'
else
  read -r place
fi
echo "$HOST: $GRAPHPIPE_RANK $GRAPHPIPE_WORLD_SIZE $GRAPHPIPE_LOCAL_RANK $MASTER_ADDR $token $place $1 $2" >&2
)");
  EXPECT_EQ(result.exit_code, 0) << result.first_cause;
  EXPECT_THAT(lines_, ElementsAre(R"({"iteration": 0})"));
  EXPECT_THAT(error_lines_[0], ElementsAre("a: 0 3 0 a secret  it's a b"));
  EXPECT_THAT(error_lines_[1], ElementsAre("a: 1 3 1 a secret 10.0.0.1 4321 it's a b"));
  EXPECT_THAT(error_lines_[2], ElementsAre("b c: 2 3 0 a secret 10.0.0.1 4321 it's a b"));
  expect_nothing_left();
}

TEST_F(RemoteRanks, TheFirstCauseIsNotTheLossOfAnother) {
  const LaunchResult result = launch(R"(
case $GRAPHPIPE_RANK in
0) echo '{"failure":{"exit_code":3,"cause":"rank 0: rank 1 hung up","rank":0,"peer_lost":true,"struck":false,"last_lines":[]}}'
   exit 3;;
1) sleep 0.3
   echo '{"failure":{"exit_code":70,"cause":"rank 1: a defect","rank":1,"peer_lost":false,"struck":false,"last_lines":["x"]}}'
   echo "error: rank 1: a defect" >&2
   exit 70;;
2) read -r place; read -r end; exit 3;;  # until its input ends
esac
)");
  EXPECT_EQ(result.exit_code, 70);
  EXPECT_EQ(result.first_cause, "rank 1: a defect");
  EXPECT_EQ(result.rank, 1);
  EXPECT_THAT(result.last_lines, ElementsAre("x"));
  EXPECT_THAT(error_lines_, testing::IsEmpty());
  expect_nothing_left();
}

TEST_F(RemoteRanks, AShellThatFailsIsACause) {
  const LaunchResult result = launch(R"(
[ $GRAPHPIPE_RANK = 2 ] && { echo "no route to host" >&2; exit 255; }
read -r end
)");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.first_cause,
              MatchesRegex("rank 2 on b c: .*/shell ended with 255; is the host reachable, and "
                           "graphpipe at the same place there\\?"));
  EXPECT_TRUE(result.struck);
  EXPECT_THAT(result.last_lines, ElementsAre("no route to host"));
  expect_nothing_left();
}

TEST_F(RemoteRanks, ARefusalIsToldWithItsStatus) {
  const LaunchResult result = launch(R"(
[ $GRAPHPIPE_RANK = 1 ] && { echo "error: plan.json: cannot read" >&2; exit 2; }
read -r end
)");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.first_cause, "rank 1 on a: plan.json: cannot read");
  EXPECT_FALSE(result.struck);
  expect_nothing_left();
}

TEST_F(RemoteRanks, AShellThatDoesNotEndIsEnded) {
  const LaunchResult result = launch(R"(
[ $GRAPHPIPE_RANK = 1 ] && exit 9
trap '' TERM
exec sleep 100
)");
  EXPECT_EQ(result.rank, 1);
  expect_nothing_left();
}

TEST(FailureLine, IsReadBack) {
  LaunchResult result;
  result.exit_code = 3;
  result.first_cause = "rank 1 on \"h\": killed";
  result.rank = 1;
  result.struck = true;
  result.last_lines = {"a", "b\xff"};
  const auto read = parse_failure_line(failure_line(result));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->first_cause, result.first_cause);
  EXPECT_EQ(read->exit_code, 3);
  EXPECT_EQ(read->rank, 1);
  EXPECT_TRUE(read->struck);
  EXPECT_FALSE(read->peer_lost);
  EXPECT_EQ(read->last_lines.size(), 2);
  for (const char* line : {"", "{}", R"({"failure":1})", R"({"failure":{}})", R"({"failure":)"}) {
    EXPECT_FALSE(parse_failure_line(line)) << line;
  }
  EXPECT_EQ(parse_rendezvous_line(R"({"rendezvous": "a 1"})"), "a 1");
  EXPECT_FALSE(parse_rendezvous_line(R"({"iteration": 1})"));
}

TEST(ShellWord, IsOneWord) {
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's $x"), "'it'\\''s $x'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace graphpipe
