// The launcher against workers that are shell scripts: they cost milliseconds.

#include "job/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "job/fault.h"
#include "job/status.h"
#include "job/test_folder.h"
#include "job/worker_processes.h"

namespace graphpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

class Launcher : public ::testing::Test {
 protected:
  // What ranks leave in the folder. A script cannot write a status, so each is prepared,
  // and put in its place by the script's first line.
  void prepare_status(int rank, const std::string& phase, const std::string& note = "") {
    const auto file = StatusFile::create(prepared("status", rank));
    file->set_phase(phase.c_str());
    file->set_note(note);
  }
  void mark_done(int rank) { prepare_status(rank, "done"); }
  void prepare_fault(const WorkerFault& fault) {
    write_fault(folder_.path(), fault);
    std::filesystem::rename(fault_path(folder_.path(), fault.rank), prepared("fault", fault.rank));
  }
  std::string prepared(const std::string& name, int rank) const {
    return folder_.path() + "/prepared." + name + "." + std::to_string(rank);
  }

  // The script sees its rank as $4 and the folder as $2.
  LaunchResult launch(const std::string& script, int count) {
    const std::string program = folder_.path() + "/worker.sh";
    write_file(program,
               "#!/bin/sh\n"
               "for name in status fault; do\n"
               "  [ -e $2/prepared.$name.$4 ] && cp $2/prepared.$name.$4 $2/$name.$4\n"
               "done\n" +
                   script);
    chmod(program.c_str(), 0700);
    Job job;
    job.kind = "profile";
    job.folder = folder_.path();
    return run_workers(
        program, job, count,
        [this](const std::string& line) {
          lines_.push_back(line);
          if (on_line_) on_line_(line);
        },
        [this](int rank, const std::string& line) { error_lines_[rank].push_back(line); });
  }

  void expect_nothing_left() {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  TestFolder folder_;
  std::vector<std::string> lines_;
  std::map<int, std::vector<std::string>> error_lines_;
  LineSink on_line_;
};

TEST_F(Launcher, HandsOnLinesAndSucceedsWhenAllAreDone) {
  for (int rank = 0; rank < 3; ++rank) mark_done(rank);
  const LaunchResult result = launch(R"(
echo "out of $4"
echo "job $1 $3 threads $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS" >&2
printf 'no end of line'
)",
                                     3);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.first_cause, "");
  EXPECT_THAT(lines_, ElementsAre("out of 0", "no end of line"));
  EXPECT_THAT(error_lines_[0], ElementsAre("job --job --rank threads 1 1"));
  EXPECT_THAT(error_lines_[2],
              UnorderedElementsAre("out of 2", "job --job --rank threads 1 1", "no end of line"));
  expect_nothing_left();
}

TEST_F(Launcher, LeavesTheMatrixKernelsToTheUserWhoNamesThem) {
  mark_done(0);
  setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
  setenv("OMP_NUM_THREADS", "7", 1);  // this one is ours
  launch("echo $OPENBLAS_CORETYPE $OMP_NUM_THREADS", 1);
  unsetenv("OPENBLAS_CORETYPE");
  setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_THAT(lines_, ElementsAre("Nehalem 1"));
}

TEST_F(Launcher, EndsAllWhenOneExitsWithACode) {
  const LaunchResult result = launch(R"(
[ $4 = 1 ] && { echo "the reason" >&2; exit 9; }
exec sleep 100
)",
                                     3);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.first_cause,
            "rank 1 on " + host_name() + ": exited with code 9 without an account of why");
  EXPECT_THAT(result.last_lines, ElementsAre("the reason"));
  expect_nothing_left();
}

TEST_F(Launcher, ReportsAnEndBeforeTheWorkIsDone) {
  mark_done(0);
  const LaunchResult result = launch("exit 0", 2);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.first_cause, "rank 1 on " + host_name() + ": exited before its work was done");
}

TEST_F(Launcher, NamesTheSignalThatKilledARank) {
  const LaunchResult result = launch(R"(
[ $4 = 2 ] && kill -9 $$
exec sleep 100
)",
                                     3);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.first_cause,
            "rank 2 on " + host_name() +
                ": killed by signal 9 (Killed); the system does that too when memory runs out");
  expect_nothing_left();
}

TEST_F(Launcher, SaysWhereARankWasWhenItWasKilled) {
  prepare_status(1, "profile", "linear(64, 64)");
  const LaunchResult result = launch("[ $4 = 1 ] && kill -SEGV $$; exec sleep 100", 2);
  EXPECT_EQ(result.first_cause,
            "rank 1 on " + host_name() +
                " (profile, linear(64, 64)): killed by signal 11 (Segmentation fault)");
}

TEST_F(Launcher, ARankThatIsStoppedEndsTheRun) {
  const LaunchResult result = launch(R"(
[ $4 = 1 ] && kill -STOP $$
exec sleep 100
)",
                                     2);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.first_cause,
            "rank 1 on " + host_name() + ": stopped by signal 19 (Stopped (signal))");
  expect_nothing_left();
}

TEST_F(Launcher, KillsThoseThatDoNotListenToSigterm) {
  const LaunchResult result = launch(R"(
[ $4 = 1 ] && exit 1
trap '' TERM
while true; do sleep 1; done
)",
                                     2);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.first_cause,
            "rank 1 on " + host_name() + ": exited with code 1 without an account of why");
  expect_nothing_left();
}

// Rank 0 loses its peer and says so at once; rank 1, the cause, is slower to end.
TEST_F(Launcher, TheLossOfAPeerIsNotTheFirstCause) {
  WorkerFault lost;
  lost.kind = FaultKind::kPeerLost;
  lost.rank = 0;
  lost.message = "lost rank 1";
  lost.time_s = 1;
  prepare_fault(lost);
  WorkerFault cause;
  cause.rank = 1;
  cause.message = "the table has no row 7";
  cause.at = "iteration 3, stage 1, micro-batch 2, 1F2";
  cause.time_s = 2;
  cause.exit_code = 2;
  prepare_fault(cause);
  const LaunchResult result = launch("[ $4 = 1 ] && sleep 0.1; exit 3", 2);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.first_cause,
            "rank 1 (iteration 3, stage 1, micro-batch 2, 1F2): the table has no row 7");
}

TEST_F(Launcher, OfTwoErrorsTheEarlierIsTheFirstCause) {
  for (const int rank : {0, 1}) {
    WorkerFault fault;
    fault.rank = rank;
    fault.message = rank == 1 ? "early" : "late";
    fault.time_s = 10 - rank;
    prepare_fault(fault);
  }
  const LaunchResult result = launch("echo before >&2; echo 'rank 1: early' >&2; exit 3", 2);
  EXPECT_EQ(result.first_cause, "rank 1: early");
  EXPECT_THAT(result.last_lines, ElementsAre("before"));  // the cause is told once
}

TEST_F(Launcher, AKillExplainsTheErrorsOfOthers) {
  WorkerFault fault;
  fault.rank = 0;
  fault.message = "something odd";
  prepare_fault(fault);
  EXPECT_EQ(launch("[ $4 = 1 ] && kill -KILL $$; exit 3", 2).first_cause,
            "rank 1 on " + host_name() +
                ": killed by signal 9 (Killed); the system does that too when memory runs out");
}

TEST_F(Launcher, ACrashIsJudgedByItsTimeAsErrorsAre) {
  WorkerFault fault;
  fault.rank = 0;
  fault.message = "came before";
  prepare_fault(fault);  // at time 0
  EXPECT_EQ(launch("[ $4 = 1 ] && kill -ABRT $$; exit 3", 2).first_cause, "rank 0: came before");
}

TEST_F(Launcher, ASignalToTheLauncherEndsTheWorkers) {
  on_line_ = [](const std::string&) { raise(SIGTERM); };
  const LaunchResult result = launch("echo ready; exec sleep 100", 2);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.first_cause, "ended by signal 15 (Terminated)");
  expect_nothing_left();
}

TEST_F(Launcher, ASignalThatWasHeldBackEndsTheWorkers) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, nullptr);
  raise(SIGTERM);
  EXPECT_EQ(launch("exec sleep 100", 2).first_cause, "ended by signal 15 (Terminated)");
  expect_nothing_left();
  pthread_sigmask(SIG_UNBLOCK, &term, nullptr);
}

// The orphans come to this process, which says that it takes them.
TEST_F(Launcher, ItsDeathEndsTheWorkers) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t launcher = fork();
  if (launcher == 0) {
    on_line_ = [](const std::string&) { kill(getpid(), SIGKILL); };
    launch("echo ready; exec sleep 100", 2);
    _exit(1);
  }
  int ended = 0;
  for (int status = 0; waitpid(-1, &status, 0) > 0; ++ended) {
    // A worker that finds its launcher dead before it has begun leaves with 127.
    const bool early = WIFEXITED(status) && WEXITSTATUS(status) == 127;
    EXPECT_TRUE(early || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)) << status;
  }
  EXPECT_EQ(ended, 3);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(Launcher, WhatALineThrowsEndsTheWorkers) {
  on_line_ = [](const std::string&) { throw std::runtime_error("the disk is full"); };
  EXPECT_THROW(launch("echo ready; exec sleep 100", 2), std::runtime_error);
  expect_nothing_left();
}

TEST_F(Launcher, ForgetsWhatAnEarlierRunLeftInTheFolder) {
  StatusFile::create(status_path(folder_.path(), 0))->set_phase("done");
  WorkerFault fault;
  fault.message = "of the run before";
  write_fault(folder_.path(), fault);
  write_file(folder_.path() + "/port", "1");
  EXPECT_EQ(launch("exit 0", 1).first_cause,
            "rank 0 on " + host_name() + ": exited before its work was done");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/port"));
}

TEST_F(Launcher, RefusesAWorkerThatIsNotThere) {
  Job job;
  job.folder = folder_.path();
  try {
    run_workers("/nowhere/graphpipe-worker", job, 1, [](const std::string&) {});
    ADD_FAILURE() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "/nowhere/graphpipe-worker: the worker program cannot be run: No such file or "
                 "directory; build it with -DGP_RUNTIME=ON (it needs libtorch)");
  }
}

TEST(LineBuffer, JoinsLinesThatComeInPieces) {
  std::vector<std::string> lines;
  const LineSink sink = [&lines](const std::string& line) { lines.push_back(line); };
  LineBuffer buffer;
  buffer.append("one\ntw", sink);
  buffer.append("o\n\nthr", sink);
  EXPECT_THAT(lines, ElementsAre("one", "two", ""));
  buffer.flush(sink);
  buffer.flush(sink);
  EXPECT_THAT(lines, ElementsAre("one", "two", "", "thr"));
}

}  // namespace
}  // namespace graphpipe
