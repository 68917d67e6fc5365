// Faults seeded into a good schedule: what verify_*_test.cc start from.

#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/test_plans.h"
#include "schedule/verify.h"

namespace graphpipe {

inline void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.rule << " | " << fault.where << " | " << fault.message;
}

// A chain of two stages over three micro-batches of 2, all in the prologues:
//   rank 0: 0F0 0F1 0B0 0F2 0B1 0B2
//   rank 1: 1F0 1B0 1F1 1B1 1F2 1B2
class VerifyFaults : public testing::Test {
 protected:
  void use(const PlanSpec& spec) {
    t_ = make_plan(spec);
    schedule_ = lower(build_schedule(t_.plan, t_.graph, spec.samples), t_.plan, t_.graph);
  }
  void SetUp() override {
    use({.edges = "0>1", .in_flight = {4, 2}, .samples = 6, .sizes = {2, 2}});
    ASSERT_EQ(schedule_.repeats, 0);
    ASSERT_THAT(faults(), testing::ElementsAre());
  }

  std::vector<Fault> faults() const {
    return verify(schedule_, t_.plan, t_.graph, t_.cluster, t_.costs).faults;
  }

  struct Place {
    std::vector<Action>* section = nullptr;
    std::ptrdiff_t index = 0;
  };
  // The action of the rank that reads `text`, in whichever section it stands.
  Place find(std::size_t rank, const std::string& text) {
    RankProgram& program = schedule_.ranks[rank];
    for (auto* section : {&program.prologue, &program.period, &program.epilogue}) {
      for (std::size_t i = 0; i < section->size(); ++i) {
        if (to_text((*section)[i], t_.plan) == text) {
          return {section, static_cast<std::ptrdiff_t>(i)};
        }
      }
    }
    ADD_FAILURE() << "rank " << rank << " has no " << text;
    return {&program.prologue, 0};
  }
  Action& action(std::size_t rank, const std::string& text) {
    const Place at = find(rank, text);
    return (*at.section)[static_cast<std::size_t>(at.index)];
  }
  void drop(std::size_t rank, const std::string& text) {
    const Place at = find(rank, text);
    at.section->erase(at.section->begin() + at.index);
  }
  void repeat(std::size_t rank, const std::string& text) {
    const Place at = find(rank, text);
    const Action copy = (*at.section)[static_cast<std::size_t>(at.index)];
    at.section->insert(at.section->begin() + at.index, copy);
  }
  void swap(std::size_t rank, const std::string& a, const std::string& b) {
    std::swap(action(rank, a), action(rank, b));
  }
  // To stand right before `text`.
  void move_before(std::size_t rank, const std::string& moved, const std::string& text) {
    const Action copy = action(rank, moved);
    drop(rank, moved);
    const Place at = find(rank, text);
    at.section->insert(at.section->begin() + at.index, copy);
  }

  TestPlan t_;
  Schedule schedule_;
};

}  // namespace graphpipe
