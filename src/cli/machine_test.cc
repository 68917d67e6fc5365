#include "cli/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace graphpipe {
namespace {

const Finding* find(const std::vector<Finding>& findings, const std::string& name) {
  for (const Finding& finding : findings) {
    if (finding.name == name) return &finding;
  }
  return nullptr;
}

// A program that answers --doctor with these lines.
std::vector<Finding> findings_of_worker(const std::string& lines) {
  // Tests run side by side.
  const std::filesystem::path folder =
      testing::TempDir() + "it's a folder " + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  const std::filesystem::path program = folder / "worker";
  std::ofstream(program) << "#!/bin/sh\n[ \"$1\" = --doctor ] && cat <<'END'\n" << lines << "END\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  return worker_findings(program);
}

TEST(Doctor, LooksAtWhatARunNeeds) {
  const std::vector<Finding> findings = machine_findings();
  for (const char* name : {"graphpipe", "processor", "cores", "memory", "load", "shared memory",
                           "open files", "GPUs", "report page"}) {
    const Finding* finding = find(findings, name);
    ASSERT_NE(finding, nullptr) << name;
    EXPECT_NE(finding->value, "") << name;
  }
}

TEST(Doctor, AdvisesOnVariablesThatChangeARun) {
  setenv("OPENBLAS_CORETYPE", "Nehalem", 1);
  setenv("OMP_NUM_THREADS", "7", 1);
  setenv("WORLD_SIZE", "2", 1);
  const std::vector<Finding> findings = machine_findings();
  unsetenv("OPENBLAS_CORETYPE");
  setenv("OMP_NUM_THREADS", "1", 1);
  unsetenv("WORLD_SIZE");

  const Finding* kernels = find(findings, "OPENBLAS_CORETYPE");
  ASSERT_NE(kernels, nullptr);
  EXPECT_EQ(kernels->value, "Nehalem");
  EXPECT_NE(kernels->advice.find("unset it"), std::string::npos) << kernels->advice;
  const Finding* threads = find(findings, "OMP_NUM_THREADS");
  ASSERT_NE(threads, nullptr);
  EXPECT_EQ(threads->value, "7");
  EXPECT_NE(threads->advice.find("one thread"), std::string::npos) << threads->advice;
  EXPECT_NE(find(findings, "WORLD_SIZE"), nullptr);
  EXPECT_EQ(find(findings, "variables"), nullptr);
}

TEST(Doctor, KnowsASlowBlasByItsFileAndByItsSpeed) {
  const std::vector<Finding> findings = findings_of_worker(
      "BLAS=/usr/lib/x86_64-linux-gnu/blas/libblas.so.3\nBLAS speed=1.5 GFLOP/s on one thread\n");
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[1].advice,
            "the reference BLAS: install libopenblas0-pthread, 17 times faster");
  EXPECT_EQ(findings[2].advice,
            "slow for a core: is it the reference BLAS, or is the machine busy?");
}

TEST(Doctor, SaysWhyOneDnnIsNotUsed) {
  const std::vector<Finding> findings = findings_of_worker(
      "oneDNN=2.6.0\n"
      "oneDNN=3.7.2, not used\n");
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[1].advice, "");
  EXPECT_NE(findings[2].advice.find("GRAPHPIPE_ONEDNN=on"), std::string::npos);
}

TEST(Doctor, HasNothingToSayOfAFastBlas) {
  for (const Finding& finding :
       findings_of_worker("BLAS=/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp.so\nBLAS "
                          "speed=30 GFLOP/s\n")) {
    EXPECT_EQ(finding.advice, "") << finding.name;
  }
}

TEST(Doctor, SaysThatAWorkerIsMissingOrDoesNotAnswer) {
  const std::vector<Finding> missing = worker_findings("");
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].value, "not found");
  const std::vector<Finding> silent = findings_of_worker("");
  ASSERT_EQ(silent.size(), 1U);
  EXPECT_EQ(silent[0].advice, "it does not answer: run it with --doctor to see why");
}

}  // namespace
}  // namespace graphpipe
