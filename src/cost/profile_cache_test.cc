#include "cost/profile_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"

namespace graphpipe {
namespace {

class ProfileCache : public testing::Test {
 protected:
  ProfileCache() : folder_(testing::TempDir() + "/gp_profile_cache_" + std::to_string(getpid())) {
    machine_.device = "cpu: a";
    machine_.library = "libtorch 1";
    machine_.load = 4;
    machine_.cores = 2;
  }
  ~ProfileCache() override { std::filesystem::remove_all(folder_); }

  // Points at these sample counts, each taking `seconds`.
  static ProfileEntry entry(const std::vector<std::int64_t>& samples, double seconds) {
    ProfileEntry result;
    for (const std::int64_t n : samples) {
      result.points.push_back({.samples = n, .forward_s = seconds, .backward_s = 0});
    }
    return result;
  }
  std::vector<std::pair<std::int64_t, double>> known(const std::string& signature) const {
    std::vector<std::pair<std::int64_t, double>> result;
    const Profile loaded = load_profile_cache(folder_, machine_);
    const auto found = loaded.entries.find(signature);
    if (found == loaded.entries.end()) return result;
    for (const ProfilePoint& p : found->second.points) result.emplace_back(p.samples, p.forward_s);
    return result;
  }

  std::string folder_;
  Profile machine_;
};

using Points = std::vector<std::pair<std::int64_t, double>>;

TEST_F(ProfileCache, AddsPointsAndTheNewestStays) {
  EXPECT_EQ(known("relu"), Points());
  Profile profile = machine_;
  profile.entries["relu"] = entry({1, 4}, 2.0);
  store_profile_cache(folder_, profile);
  profile.entries["relu"] = entry({2, 4}, 3.0);
  store_profile_cache(folder_, profile);
  EXPECT_EQ(known("relu"), Points({{1, 2.0}, {2, 3.0}, {4, 3.0}}));
}

TEST_F(ProfileCache, KnowsNothingOfAnotherMachineLibraryOrLoad) {
  Profile profile = machine_;
  profile.entries["relu"] = entry({1}, 2.0);
  store_profile_cache(folder_, profile);
  const auto forgets = [&](auto change) {
    Profile other = machine_;
    change(other);
    return load_profile_cache(folder_, other).entries.empty();
  };
  EXPECT_TRUE(forgets([](Profile& p) { p.device = "cpu: b"; }));
  EXPECT_TRUE(forgets([](Profile& p) { p.library = "libtorch 2"; }));
  EXPECT_TRUE(forgets([](Profile& p) { p.load = 1; }));
  EXPECT_TRUE(forgets([](Profile& p) { p.cores = 8; }));
  EXPECT_FALSE(forgets([](Profile&) {}));
}

TEST_F(ProfileCache, LeavesOutFailuresAndOperatorsOfAProgramsOwn) {
  Profile profile = machine_;
  profile.entries["custom{function=\"mine\"} () -> "] = entry({1}, 2.0);
  profile.entries["gelu"].failure = "failed";
  profile.entries["relu"] = entry({1}, 2.0);
  store_profile_cache(folder_, profile);
  EXPECT_EQ(load_profile_cache(folder_, machine_).entries.size(), 1U);
}

TEST_F(ProfileCache, ABrokenFileIsAsNone) {
  std::filesystem::create_directories(folder_);
  write_file(profile_cache_path(folder_, machine_), "{");
  EXPECT_EQ(known("relu"), Points());
  Profile profile = machine_;
  profile.entries["relu"] = entry({1}, 2.0);
  store_profile_cache(folder_, profile);
  EXPECT_EQ(known("relu"), Points({{1, 2.0}}));
}

}  // namespace
}  // namespace graphpipe
