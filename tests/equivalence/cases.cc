#include "equivalence/cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counter_random.h"
#include "data/index_stream.h"
#include "equivalence/partitions.h"

namespace graphpipe {
namespace {

constexpr int kMaxRanks = 6;
constexpr std::int64_t kMaxMicroBatches = 8;

}  // namespace

const std::vector<std::string>& small_models() {
  static const std::vector<std::string> models = {
      "movielens:users=40,films=60,dim=8,hidden=12,title_dim=8",
      "two-branch:blocks=2,sequence=5,hidden=8,heads=2,ffn=12",
      "mmt:branches=3,layers=1,sequence=5,hidden=8,heads=2,ffn=12,outputs=3,dropout=100",
      "transformer:layers=3,sequence=5,hidden=8,heads=2,ffn=12,outputs=3,dropout=100",
      "digits:hidden=12,dropout=200",
      "dlrm:branches=2,tables=2,layers=2,hidden=8,features=6,entries=20,dimension=4,bag=3,"
      "top_layers=1",
      "candle-uno:branches=3,layers=2,hidden=8,features=6,top_layers=1",
      "vgg16:image=32,channels=1,classes=5,width=2,hidden=8,dropout=100",
      "unet:image=8,classes=3,width=2,depth=2,padding=1",
  };
  return models;
}

// Images of which the last layers see more than one pixel: a sample alone has a variance.
const std::vector<std::string>& small_mixing_models() {
  static const std::vector<std::string> models = {
      "resnet50:image=64,channels=2,classes=5,width=2,blocks=1",
      "vgg16:image=32,channels=1,classes=5,width=2,hidden=8,dropout=100,batch_norm=1",
      "unet:image=8,classes=3,width=2,depth=2,padding=1,batch_norm=1",
  };
  return models;
}

const std::vector<std::string>& small_papers_models() {
  static const std::vector<std::string> models = {
      "alexnet:image=63,channels=1,classes=5,width=2,hidden=8,dropout=100",
      "s2vt:frames=3,words=3,features=6,embedding=4,hidden=5,vocabulary=11,dropout=100",
      "gnmt:layers=3,source=4,target=3,hidden=6,vocabulary=13,dropout=100",
      "resnext50:image=64,channels=2,classes=5,width=2,groups=2,blocks=1",
  };
  return models;
}

const std::vector<std::string>& small_papers_models_of_many_readers() {
  static const std::vector<std::string> models = {
      "gpt:layers=2,sequence=5,hidden=8,heads=2,vocabulary=13",
      "clip:layers=1,image=8,channels=1,patch=4,image_width=8,image_heads=2,tokens=5,"
      "vocabulary=11,text_width=6,text_heads=2,outputs=4",
      "bert:layers=1,sequence=6,masked=2,hidden=8,heads=2,vocabulary=13,positions=9",
      "inception-v3:image=75,channels=1,classes=5,width=2,modules=1,batch_norm=0,dropout=100",
      "inception-v3:image=107,channels=1,classes=5,width=2,modules=1,auxiliary=0,batch_norm=1",
      "nasnet-cell:image=32,channels=1,classes=5,stem=2,filters=4,groups=1,cells=1,batch_norm=0",
      "nasnet-cell:image=64,channels=1,classes=5,stem=2,filters=4,groups=1,cells=1,batch_norm=1",
  };
  return models;
}

std::string to_text(const EqualityCase& c) {
  return fmt::format("{}: {} ranks, M = {}{}, {}{}, seed {}", c.model, c.ranks, c.micro_batches,
                     c.short_last ? " (the last short)" : "", schedule_kind_name(c.schedule),
                     c.chain ? ", chain order" : "", c.seed);
}

std::vector<EqualityCase> all_cases(const std::string& model, std::uint64_t seed) {
  const CounterRandom random(combine_hash(seed, hash_bytes(model)));
  std::vector<EqualityCase> cases;
  for (int ranks = 1; ranks <= kMaxRanks; ++ranks) {
    for (std::int64_t m = 1; m <= kMaxMicroBatches; ++m) {
      for (const ScheduleKind schedule : {ScheduleKind::k1F1B, ScheduleKind::kGpipe}) {
        for (const bool chain : {false, true}) {
          for (const bool short_last : {false, true}) {
            const std::uint64_t partition = random.bits(cases.size()) >> 40;
            cases.push_back({model, ranks, m, schedule, chain, short_last, partition});
          }
        }
      }
    }
  }
  return cases;
}

std::vector<EqualityCase> sampled_cases(const std::string& model, std::size_t count,
                                        std::uint64_t seed) {
  std::vector<EqualityCase> cases = all_cases(model, seed);
  shuffle_by_key(cases, seed);
  cases.resize(std::min(count, cases.size()));
  return cases;
}

Plan plan_of(const EqualityCase& c, const Graph& graph) {
  const std::int64_t short_by = c.short_last ? kMicroBatch / 2 : 0;
  Plan plan = cut_graph(
      graph, {.stages = c.ranks,
              .seed = c.seed,
              .mini_batch = c.micro_batches * kMicroBatch - short_by,
              .micro_batch = std::min(kMicroBatch, c.micro_batches * kMicroBatch - short_by),
              .schedule = c.schedule,
              .chain = c.chain});
  // Not with pointwise convolutions: the gradient of their bias has other last bits where the
  // input's is not asked for at the same time.
  const bool in_halves = c.schedule == ScheduleKind::k1F1B && c.seed % 4 == 1 &&
                         !c.model.starts_with("unet") && !c.model.starts_with("resnet");
  if (in_halves) plan.schedule = ScheduleKind::kZbH1;
  const std::size_t ranks = c.seed % 5 == 0 ? (plan.stages.size() + 1) / 2 : plan.stages.size();
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].recompute = (c.seed >> s) % 4 == 0;  // a quarter of the stages
    plan.stages[s].devices = {DeviceId(s % ranks)};     // two a rank in a fifth of the cases
  }
  plan.optimizer = c.seed % 2 == 0 ? OptimizerKind::kSgdMomentum : OptimizerKind::kAdam;
  return plan;
}

Lesson lesson_of(const EqualityCase& c, const Plan& plan, std::int64_t samples) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < samples; ++i) ids.push_back(i);
  const IndexStream stream(ids, plan.mini_batch, c.seed);
  Lesson lesson;
  lesson.batches = {stream.mini_batch(0), stream.mini_batch(1), stream.mini_batch(2)};
  std::vector<std::int64_t>& last = lesson.batches.back();
  last.resize(std::max<std::size_t>(1, last.size() - last.size() / 3));
  lesson.evaluated = {ids.begin(),
                      ids.begin() + std::min<std::int64_t>(samples, 3 * plan.mini_batch / 2 + 1)};
  lesson.options.optimizer = plan.optimizer;
  lesson.options.learning_rate = plan.optimizer == OptimizerKind::kAdam ? 0.01 : 0.05;
  lesson.options.momentum = plan.optimizer == OptimizerKind::kAdam ? 0 : 0.9;
  lesson.options.weight_decay = 0.001;
  lesson.options.seed = c.seed + 1;
  return lesson;
}

Lesson with_plain_sgd(Lesson lesson) {
  lesson.options.optimizer = OptimizerKind::kSgd;
  lesson.options.learning_rate = 0.01;
  lesson.options.momentum = 0;
  return lesson;
}

}  // namespace graphpipe
