#include "job/hosts/launch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace graphpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Way = Rendezvous::Way;

const Environment kTorchrun = {{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"MASTER_ADDR", "10.0.0.1"},
                               {"MASTER_PORT", "29500"},
                               {"TORCHELASTIC_RUN_ID", "r1"}};
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                              {"PMIX_RANK", "2"},
                              {"PMIX_NAMESPACE", "prterun-host-1234@1"}};
const Environment kSlurm = {{"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "4"},
                            {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "77"},
                            {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_NODELIST", "gpu[07-08]"}};

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}
Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

std::string refusal(const Environment& environment, const LaunchFlags& flags = {}) {
  try {
    plan_launch(environment, flags);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string store(const LaunchPlan& plan) {
  return plan.rendezvous.host + " " + std::to_string(plan.rendezvous.port);
}

TEST(LaunchPlan, WithoutVariablesAllRanksAreHere) {
  const LaunchPlan plan = plan_launch({{"PATH", "/bin"}}, {});
  EXPECT_EQ(plan.launcher, Launcher::kNone);
  EXPECT_EQ(plan.size, 1);
  EXPECT_THAT(plan.notes, IsEmpty());
}

TEST(LaunchPlan, Torchrun) {
  const LaunchPlan plan = plan_launch(kTorchrun, {});
  EXPECT_EQ(plan.launcher, Launcher::kTorchrun);
  EXPECT_EQ(plan.rank, 5);
  EXPECT_EQ(plan.size, 8);
  EXPECT_EQ(plan.local_rank, 1);
  EXPECT_EQ(plan.rendezvous.way, Way::kFixed);
  EXPECT_EQ(store(plan), "10.0.0.1 29500");
  EXPECT_TRUE(plan.token_is_guessable);
  EXPECT_EQ(plan.rendezvous.token, "job r1");
  EXPECT_THAT(plan.notes, ElementsAre("rank 5 of 8, by torchrun (RANK=5 WORLD_SIZE=8)"));
}

TEST(LaunchPlan, TorchrunWhoseAgentHasTheStore) {
  const LaunchPlan plan = plan_launch(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                       {"TORCHELASTIC_RESTART_COUNT", "2"}}),
                                      {});
  EXPECT_EQ(plan.rendezvous.way, Way::kAgent);
  EXPECT_EQ(plan.rendezvous.run, "r1.2");
}

TEST(LaunchPlan, OpenMpiOnOneMachine) {
  const LaunchPlan plan = plan_launch(kOpenMpi, {});
  EXPECT_EQ(plan.launcher, Launcher::kOpenMpi);
  EXPECT_EQ(plan.rank, 2);
  EXPECT_EQ(plan.size, 4);
  EXPECT_EQ(plan.rendezvous.host, "127.0.0.1");
  EXPECT_GE(plan.rendezvous.port, 20000);
  EXPECT_LT(plan.rendezvous.port, 32000);
  const LaunchPlan other =
      plan_launch(with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "0"}, {"PMIX_RANK", "0"}}), {});
  EXPECT_EQ(store(other), store(plan));  // all ranks of a job find the same
}

TEST(LaunchPlan, OpenMpiOnSeveralMachinesIsToldWhereRank0Is) {
  const Environment far = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(refusal(far),
            "MASTER_ADDR: is not set, and open-mpi does not say where rank 0 is; set it and "
            "MASTER_PORT, or give --rendezvous HOST:PORT");
  EXPECT_EQ(store(plan_launch(far, {.rendezvous = "head:1234"})), "head 1234");
  EXPECT_EQ(store(plan_launch(far, {.rendezvous = "[fe80::1]:1234"})), "fe80::1 1234");
  EXPECT_EQ(store(plan_launch(with(far, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}}), {})), "a 5");
}

TEST(LaunchPlan, Pmi) {
  const LaunchPlan plan = plan_launch({{"PMI_RANK", "1"},
                                       {"PMI_SIZE", "3"},
                                       {"MPI_LOCALRANKID", "0"},
                                       {"MASTER_ADDR", "a"},
                                       {"MASTER_PORT", "5"},
                                       {"GRAPHPIPE_TOKEN", "secret"}},
                                      {});
  EXPECT_EQ(plan.launcher, Launcher::kPmi);
  EXPECT_EQ(plan.rank, 1);
  EXPECT_EQ(plan.size, 3);
  EXPECT_EQ(plan.local_rank, 0);
  EXPECT_EQ(plan.rendezvous.token, "secret");
  EXPECT_FALSE(plan.token_is_guessable);
}

TEST(LaunchPlan, Slurm) {
  const LaunchPlan plan = plan_launch(kSlurm, {});
  EXPECT_EQ(plan.launcher, Launcher::kSlurm);
  EXPECT_EQ(plan.rank, 3);
  EXPECT_EQ(plan.local_rank, 1);
  EXPECT_EQ(plan.rendezvous.host, "gpu07");
  EXPECT_EQ(plan.rendezvous.token, "job 77.0");
  const Environment step = with(kSlurm, {{"SLURM_STEP_NODELIST", "gpu08"}, {"MASTER_PORT", "9"}});
  EXPECT_EQ(store(plan_launch(step, {})), "gpu08 9");
}

// Slurm sets SLURM_PROCID=0 and SLURM_NTASKS there too.
TEST(LaunchPlan, TheBatchScriptOfSlurmIsNoRank) {
  EXPECT_EQ(plan_launch(without(kSlurm, "SLURM_STEP_ID"), {}).launcher, Launcher::kNone);
}

TEST(LaunchPlan, OneProcessOfALauncherStartsAllRanksItself) {
  const LaunchPlan plan = plan_launch({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, {});
  EXPECT_EQ(plan.launcher, Launcher::kNone);
  EXPECT_THAT(plan.notes, ElementsAre("torchrun (RANK=0 WORLD_SIZE=1): one process, which starts "
                                      "all ranks itself"));
}

TEST(LaunchPlan, ALauncherThatAnotherStartedComesFirst) {
  const Environment both =
      with(with(kTorchrun, kSlurm), {{"SLURM_NTASKS", "2"}, {"SLURM_PROCID", "1"}});
  const LaunchPlan plan = plan_launch(both, {});
  EXPECT_EQ(plan.launcher, Launcher::kTorchrun);
  EXPECT_EQ(plan.rank, 5);
  EXPECT_THAT(plan.notes, ElementsAre("rank 5 of 8, by torchrun (RANK=5 WORLD_SIZE=8), not "
                                      "SLURM_PROCID=1 SLURM_NTASKS=2"));
}

TEST(LaunchPlan, TwoThatAgreeAreOne) {
  const Environment both = with(kSlurm, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}});
  EXPECT_EQ(plan_launch(with(both, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}}), {}).launcher,
            Launcher::kPmi);
  const LaunchPlan named = plan_launch(both, {.launcher = "slurm"});
  EXPECT_EQ(named.launcher, Launcher::kSlurm);
  EXPECT_EQ(named.rendezvous.host, "gpu07");
}

TEST(LaunchPlan, RefusesContradictions) {
  EXPECT_EQ(refusal(with(kSlurm, {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}})),
            "PMI_RANK: PMI_RANK=1 PMI_SIZE=4 (pmi) and SLURM_PROCID=3 SLURM_NTASKS=4 (slurm) "
            "contradict each other; name one with --launcher, or unset the other's");
  EXPECT_EQ(refusal(with(kOpenMpi, {{"RANK", "0"}, {"WORLD_SIZE", "2"}})),
            "RANK: RANK=0 WORLD_SIZE=2 (torchrun) and OMPI_COMM_WORLD_RANK=2 "
            "OMPI_COMM_WORLD_SIZE=4 (open-mpi) contradict each other; name one with --launcher, or "
            "unset the other's");
  EXPECT_EQ(refusal(with(kOpenMpi, {{"PMIX_RANK", "1"}})),
            "PMIX_RANK: 1 and OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 contradict each other");
}

TEST(LaunchPlan, RefusesWhatIsMissingOrNoNumber) {
  EXPECT_EQ(refusal({{"RANK", "0"}}),
            "WORLD_SIZE: is not set, and RANK is: torchrun sets both; --launcher none starts all "
            "ranks from this process");
  EXPECT_EQ(refusal({{"PMI_SIZE", "4"}}),
            "PMI_RANK: is not set, and PMI_SIZE is: pmi sets both; --launcher none starts all "
            "ranks from this process");
  EXPECT_EQ(refusal({{"RANK", "4"}, {"WORLD_SIZE", "4"}}),
            "RANK: expected less than WORLD_SIZE=4, found 4");
  EXPECT_EQ(refusal({{"RANK", "-1"}, {"WORLD_SIZE", "4"}}),
            "RANK: expected a number from 0 to 1048575, found -1");
  EXPECT_NE(refusal({{"RANK", "zero"}, {"WORLD_SIZE", "4"}}), "");
  EXPECT_EQ(refusal({{"PMIX_RANK", "1"}}),
            "PMIX_RANK: is set, and nothing says how many ranks there are; set PMI_RANK and "
            "PMI_SIZE; --launcher none starts all ranks from this process");
  EXPECT_EQ(refusal(without(kTorchrun, "MASTER_PORT")),
            "MASTER_PORT: is not set; set it to a port that is free on rank 0's host, or give "
            "--rendezvous HOST:PORT");
  EXPECT_EQ(refusal(with(kTorchrun, {{"MASTER_PORT", "70000"}})),
            "MASTER_PORT: expected a number from 1 to 65535, found 70000");
  EXPECT_EQ(refusal(with(kTorchrun, {{"LOCAL_RANK", "8"}})),
            "LOCAL_RANK: expected a number from 0 to 7, found 8");
}

TEST(LaunchPlan, FlagsComeBeforeVariables) {
  EXPECT_EQ(plan_launch(kTorchrun, {.launcher = "none"}).launcher, Launcher::kNone);
  EXPECT_EQ(store(plan_launch(kTorchrun, {.rendezvous = "other:7"})), "other 7");
  const Environment named = with(kTorchrun, {{"GLOO_SOCKET_IFNAME", "eth1"}});
  EXPECT_EQ(plan_launch(named, {}).interface, "eth1");
  EXPECT_EQ(plan_launch(with(named, {{"GRAPHPIPE_INTERFACE", "ib0"}}), {}).interface, "ib0");
  EXPECT_EQ(plan_launch(named, {.interface = "lo"}).interface, "lo");
}

TEST(LaunchPlan, RefusesFlagsThatItCannotFollow) {
  EXPECT_EQ(refusal({}, {.launcher = "mpi"}),
            "--launcher: 'mpi' is none of auto, none, torchrun, open-mpi, pmi, slurm");
  EXPECT_EQ(refusal(kSlurm, {.launcher = "pmi"}), "--launcher: pmi, and its variables are not set");
  EXPECT_EQ(refusal(kTorchrun, {.rendezvous = "nowhere"}),
            "--rendezvous: expected HOST:PORT, found \"nowhere\"");
  EXPECT_EQ(
      refusal({}, {.interface = "lo"}),
      "--interface: is for ranks on several hosts, and this process starts all ranks here: no "
      "launcher's variables are set, and there is no --hostfile");
  EXPECT_EQ(refusal(with(kTorchrun, {{"GLOO_SOCKET_IFNAME", "a,b"}})),
            "GLOO_SOCKET_IFNAME: expected one interface, found \"a,b\"");
}

TEST(LaunchPlan, OfAHostfileTheRestComesOverStandardInput) {
  Environment environment = {{"GRAPHPIPE_RANK", "0"},
                             {"GRAPHPIPE_WORLD_SIZE", "2"},
                             {"GRAPHPIPE_LOCAL_RANK", "0"},
                             {"MASTER_ADDR", "h1"}};
  const LaunchPlan first = plan_launch(with(kSlurm, environment), {.launcher = "none"});
  EXPECT_EQ(first.launcher, Launcher::kNone);
  const LaunchPlan plan = plan_launch(environment, {});
  EXPECT_EQ(plan.launcher, Launcher::kHostfile);
  EXPECT_EQ(plan.rendezvous.way, Way::kOutput);
  EXPECT_EQ(plan.rendezvous.host, "h1");
  EXPECT_EQ(plan.rendezvous.token, "");
  environment["GRAPHPIPE_RANK"] = "1";
  EXPECT_EQ(plan_launch(environment, {}).rendezvous.way, Way::kFixed);
}

TEST(PlanLaunch, ValuesAreUtf8) {
  EXPECT_EQ(refusal(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "r\xff"}})),
            "TORCHELASTIC_RUN_ID: its value is not UTF-8");
}

}  // namespace
}  // namespace graphpipe
