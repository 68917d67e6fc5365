#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "data/dataset.h"
#include "data/memory_dataset.h"
#include "data/test_folder.h"
#include "graph/builder.h"

namespace graphpipe {
namespace {

// An environment variable as it is for one test.
class ScopedVariable {
 public:
  ScopedVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* old = std::getenv(name_.c_str())) old_ = old;
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~ScopedVariable() {
    if (old_.empty()) {
      unsetenv(name_.c_str());
    } else {
      setenv(name_.c_str(), old_.c_str(), 1);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  std::string name_;
  std::string old_;
};

Graph small_graph(DType floating = DType::kFloat32) {
  GraphBuilder g("small", floating);
  const TensorId id = g.input("id", DType::kInt64, {2});
  const TensorId x = g.input("x", {4});
  const TensorId rows = g.reshape("rows", g.embedding("table", id, 3, 2), {4});
  const TensorId y = g.linear("y", g.add("sum", {rows, x}), 1);
  g.loss(g.mse_loss("loss", y, g.input("target", {1})));
  return std::move(g).build();
}

// Ten samples for small_graph(); `last_id` is the last id of sample 7.
MemoryDataset small_set(std::int64_t last_id = 2) {
  MemoryDataset dataset("mine", 10);
  std::vector<std::int64_t> ids(20, 1);
  ids[15] = last_id;
  dataset.add("id", {2}, std::span<const std::int64_t>(ids));
  dataset.add("x", {4}, std::span<const float>(std::vector<float>(40, 0.5F)));
  dataset.add("target", {1}, std::span<const float>(std::vector<float>(10, 1.0F)));
  return dataset;
}

std::string load_fault(const std::string& argument, const Graph& graph = small_graph()) {
  return input_fault([&] { load_dataset(argument, graph, 1); });
}

TEST(LoadDataset, OpensAFolder) {
  const TestFolder folder;
  write_dataset(small_set(), folder.path());
  EXPECT_EQ(load_dataset(folder.path(), small_graph(), 1)->samples(), 10);
}

TEST(LoadDataset, FloatsServeAGraphOfDoubles) {
  const TestFolder folder;
  write_dataset(small_set(), folder.path());
  EXPECT_EQ(load_fault(folder.path(), small_graph(DType::kFloat64)), "");
}

TEST(LoadDataset, FindsBuiltInSetsWhereTheVariableSays) {
  const TestFolder folder;
  const ScopedVariable root("GRAPHPIPE_DATA", folder.path());
  write_dataset(small_set(), folder.path() + "/digits");
  EXPECT_EQ(load_dataset("digits", small_graph(), 1)->name(), "mine");
}

TEST(LoadDataset, SaysHowToFetchWhatIsMissing) {
  const TestFolder folder;
  {
    const ScopedVariable root("GRAPHPIPE_DATA", folder.path());
    EXPECT_EQ(load_fault("movielens"),
              "--data: the data set movielens is not at " + folder.path() +
                  "/movielens; fetch it with tools/fetch_data.sh movielens");
  }
  const ScopedVariable home("HOME", folder.path());
  const ScopedVariable unset("GRAPHPIPE_DATA", "");
  EXPECT_EQ(load_fault("movielens"),
            "--data: the data set movielens is not at " + folder.path() +
                "/.cache/graphpipe/data/movielens; fetch it with tools/fetch_data.sh movielens");
}

TEST(LoadDataset, NamesTheSetsThatAre) {
  EXPECT_EQ(load_fault("movilens"),
            "--data: \"movilens\" is neither a built-in data set (digits, movielens, synthetic) "
            "nor a folder; did you mean movielens?");
  EXPECT_EQ(load_fault("/no/such/folder"),
            "--data: \"/no/such/folder\" is neither a built-in data set (digits, movielens, "
            "synthetic) nor a folder");
}

TEST(LoadDataset, NamesEachInputThatNoFieldServes) {
  const TestFolder folder;
  MemoryDataset dataset("mine", 10);
  dataset.add("x", {2, 2}, std::span<const float>(std::vector<float>(40)));
  dataset.add("target", {1}, std::span<const std::int64_t>(std::vector<std::int64_t>(10)));
  write_dataset(dataset, folder.path());
  EXPECT_EQ(load_fault(folder.path()),
            "--data: the data set mine does not serve these inputs of small: id int64 (2), found "
            "no such field; x float32 (4), found float32 (2, 2); target float32 (1), found int64 "
            "(1); its fields are x float32 (2, 2), target int64 (1)");
}

TEST(LoadDataset, RefusesAnInputThatIsNotOfSamples) {
  GraphBuilder g("constant");
  g.input("scale", DType::kFloat32, {3}, false);
  const TestFolder folder;
  write_dataset(small_set(), folder.path());
  EXPECT_EQ(load_fault(folder.path(), std::move(g).build()),
            "--data: the data set mine does not serve these inputs of constant: scale float32 (3), "
            "one tensor for all samples; its fields are id int64 (2), x float32 (4), target "
            "float32 (1)");
}

TEST(LoadDataset, RefusesIdsBeyondATable) {
  const TestFolder folder;
  write_dataset(small_set(3), folder.path());
  EXPECT_EQ(load_fault(folder.path()),
            "--data: field id of the data set mine has 3 in sample 7, and table takes numbers from "
            "0 to 2");
  write_dataset(small_set(-1), folder.path());
  EXPECT_EQ(load_fault(folder.path()),
            "--data: field id of the data set mine has -1 in sample 7, and table takes numbers "
            "from 0 to 2");
}

TEST(LoadDataset, AnyNegativeNumberIsPaddingOfABag) {
  GraphBuilder g("bags");
  g.embedding_bag("bag", g.input("id", DType::kInt64, {2}), 3, 2);
  const TestFolder folder;
  write_dataset(small_set(-7), folder.path());
  EXPECT_EQ(load_fault(folder.path(), std::move(g).build()), "");
}

TEST(LoadDataset, MakesSyntheticSamples) {
  const auto dataset = load_dataset("synthetic", small_graph(), 1);
  EXPECT_EQ(dataset->samples(), 8192);
  EXPECT_EQ(dataset->fields().size(), 3U);
}

TEST(LoadDataset, MakesFewerSyntheticSamplesOfALargeInput) {
  GraphBuilder g("large");
  g.input("id", DType::kInt64, {1 << 18});  // 2 MiB a sample
  EXPECT_EQ(load_dataset("synthetic", std::move(g).build(), 1)->samples(), 31);
}

}  // namespace
}  // namespace graphpipe
