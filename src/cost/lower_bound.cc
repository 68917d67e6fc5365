// Symbols: B  samples of the mini-batch;  b  micro-batch of a stage;  d  its devices
//          n  samples of one task on one device: a share of a micro-batch
//          D  devices;  C  tasks that can compute at the same time
//          F(o, n), G(o, n)  seconds of operator o's forward and backward over n samples
//          T  the iteration of any plan within the options
//
// What holds in every plan: the tasks of o's stage have sizes n out of a known set (b, or
// ceil(b / d), or what is left at the end of a micro-batch or of the mini-batch); a task of a
// stage takes at least the sum of its operators' times, and may be seen as its operators one
// after the other, forward in their order and backward in the reverse. G counts only where a
// gradient reaches an output of o, since only then its stage is certain to run backward.
//
// *Work over devices.* A sample of o costs at least c(o) = min over n of (F + G)(o, n) / n,
// in whatever task it is. All B samples of all operators are computed by at most C tasks at a
// time: the devices, or where the devices of a node share cores, those. So T C >= B sum c(o).
//
// *Slowest operator.* o runs on the d <= w devices of one stage, w = min(max_width, C). Before
// its first forward, every operator on a dependency path to o has done a forward of the task
// that holds a sample o needs, one after the other: at least head(o), the longest such path
// with min over n of F(., n). After its last backward, the operators on a path along which
// o's gradient flows have done the backward of those samples: at least tail(o), likewise
// with G. Between the two, B c(o) of work on at most w devices. So
// T >= head(o) + B c(o) / w + tail(o).
//
// *Critical path.* The last forward of o precedes the backward of the same samples, so
// T >= head(o) + min F(o, .) + min G(o, .) + tail(o) for each o.
//
// Transfers, reductions, memory and a task's overhead only add to T. Device types: the
// fastest for each operator. The bound is the largest of the three, less what rounding may
// have added to it.

#include "cost/lower_bound.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"

namespace graphpipe {
namespace {

// Sums of many times differ in their last digits, and the simulator counts in small ticks.
constexpr double kRounding = 1 - 1e-9;

// What `samples` samples can be cut into: the full and the last share of every division over
// up to max_width devices.
void add_shares(std::int64_t samples, int max_width, std::set<std::int64_t>& sizes) {
  for (std::int64_t d = 1; d <= std::min<std::int64_t>(max_width, samples); ++d) {
    const std::int64_t share = (samples + d - 1) / d;
    sizes.insert(share);
    if (samples % share != 0) sizes.insert(samples % share);
  }
}

std::set<std::int64_t> task_sizes(std::int64_t mini_batch,
                                  const std::vector<std::int64_t>& micro_batches, int max_width) {
  std::set<std::int64_t> sizes;
  for (const std::int64_t micro_batch : micro_batches) {
    const std::int64_t b = std::min(micro_batch, mini_batch);
    add_shares(b, max_width, sizes);
    if (mini_batch % b != 0) add_shares(mini_batch % b, max_width, sizes);
  }
  return sizes;
}

struct LeastTimes {
  double forward_s = std::numeric_limits<double>::infinity();     // of a task
  double backward_s = std::numeric_limits<double>::infinity();    // 0 where none is certain
  double per_sample_s = std::numeric_limits<double>::infinity();  // c(o)
};

// The types that devices have, each once.
std::vector<const DeviceType*> types_in_use(const Cluster& cluster) {
  std::vector<const DeviceType*> types;
  for (std::size_t t = 0; t < cluster.types.size(); ++t) {
    const bool used =
        std::ranges::find(cluster.device_type, static_cast<int>(t)) != cluster.device_type.end();
    if (used) types.push_back(&cluster.types[t]);
  }
  return types;
}

LeastTimes least_times(const Graph& graph, OpId op, bool backward, const CostModel& costs,
                       const std::vector<const DeviceType*>& types,
                       const std::set<std::int64_t>& sizes) {
  LeastTimes least;
  if (!backward) least.backward_s = 0;
  for (const DeviceType* type : types) {
    for (const std::int64_t n : sizes) {
      const double f = costs.op_cost(graph, op, n, 1, *type, Phase::kForward).seconds;
      const double g =
          backward ? costs.op_cost(graph, op, n, 1, *type, Phase::kBackward).seconds : 0;
      least.forward_s = std::min(least.forward_s, f);
      least.backward_s = std::min(least.backward_s, g);
      least.per_sample_s = std::min(least.per_sample_s, (f + g) / static_cast<double>(n));
    }
  }
  return least;
}

// Tasks that can compute at once: devices, or the cores that those of a node share.
int tasks_at_once(const Cluster& cluster) {
  const int devices = cluster.device_count();
  if (cluster.cores_per_node <= 0) return devices;
  const int per_node = cluster.levels.front().group_size;
  int total = 0;
  for (int first = 0; first < devices; first += per_node) {
    total += std::min({per_node, devices - first, cluster.cores_per_node});
  }
  return total;
}

}  // namespace

LowerBound iteration_lower_bound(const Graph& graph, const Cluster& cluster, const CostModel& costs,
                                 std::int64_t mini_batch,
                                 const std::vector<std::int64_t>& micro_batches, int max_width) {
  GP_CHECK(!micro_batches.empty() && mini_batch > 0 && max_width > 0,
           "{} micro-batch sizes, mini-batch {}, width {}", micro_batches.size(), mini_batch,
           max_width);
  const std::set<std::int64_t> sizes = task_sizes(mini_batch, micro_batches, max_width);
  const std::vector<const DeviceType*> types = types_in_use(cluster);
  const std::vector<bool> needs = needs_gradient(graph);
  const auto batch = static_cast<double>(mini_batch);
  const int at_once = tasks_at_once(cluster);
  const int width = std::min(max_width, at_once);

  double work_s = 0;
  double slowest_s = 0;
  double path_s = 0;
  std::vector<LeastTimes> least(graph.op_count());
  std::vector<double> head(graph.op_count(), 0);
  std::vector<double> tail(graph.op_count(), 0);
  for (std::size_t o = 0; o < graph.op_count(); ++o) {
    const Operator& op = graph.ops[o];
    const bool backward =
        std::ranges::any_of(op.outputs, [&](TensorId out) { return needs[out.index()]; });
    for (const TensorId in : op.inputs) {
      const OpId before = graph.tensor(in).producer;
      if (!before.valid()) continue;
      const std::size_t p = before.index();
      head[o] = std::max(head[o], head[p] + least[p].forward_s);
      if (backward && needs[in.index()]) {
        tail[o] = std::max(tail[o], tail[p] + least[p].backward_s);
      }
    }
    least[o] = least_times(graph, OpId(o), backward, costs, types, sizes);
    const double around_s = head[o] + tail[o];
    const double own_s = batch * least[o].per_sample_s;
    work_s += own_s / at_once;
    slowest_s = std::max(slowest_s, around_s + own_s / width);
    path_s = std::max(path_s, around_s + least[o].forward_s + least[o].backward_s);
  }
  LowerBound bound{work_s, "work over devices"};
  if (slowest_s > bound.seconds) bound = {slowest_s, "slowest operator"};
  if (path_s >= bound.seconds) bound = {path_s, "critical path"};
  bound.seconds *= kRounding;
  return bound;
}

}  // namespace graphpipe
