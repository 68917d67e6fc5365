#include "report/trace_links.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/numbers.h"
#include "schedule/drawing.h"

namespace graphpipe {
namespace {

using ChannelKey = std::tuple<EdgeId, Direction, RankId, RankId>;  // from, to
using ShareKey = std::pair<RankId, int>;                           // a rank's part in a bucket

// Messages of a channel are posted, sent, received and left in one order; how many have been.
struct Channel {
  std::vector<int> events;
  std::size_t posted = 0;
  std::size_t sent = 0;
  std::size_t received = 0;
  std::size_t left = 0;
};

struct Share {
  std::vector<int> events;
  std::size_t started = 0;
  std::size_t waited = 0;
};

class Linker {
 public:
  Linker(const Trace& trace, const Schedule& lowered, const Plan& plan, const Cluster& cluster)
      : trace_(trace), lowered_(lowered), plan_(plan), cluster_(cluster) {
    const std::size_t events = trace.events.size();
    computes_.resize(lowered.ranks.size());
    links_.steps.resize(lowered.ranks.size());
    links_.reductions.resize(lowered.ranks.size());
    links_.step_of.assign(events, -1);
    links_.producer.assign(events, -1);
    links_.posted_after.assign(events, -1);
    links_.together.resize(events);
    for (std::size_t i = 0; i < events; ++i) sort_event(static_cast<int>(i));
  }

  TraceLinks link() {
    for (std::size_t r = 0; r < lowered_.ranks.size(); ++r) walk(RankId(r));
    for (const auto& [key, share] : shares_) join(key, share.events);
    return std::move(links_);
  }

 private:
  void sort_event(int index) {
    const TraceEvent& event = trace_.events[at(index)];
    const Action& a = event.action;
    double left_s = event.end_s;
    if (is_compute(a.kind)) {
      computes_[event.rank.index()].push_back(index);
    } else if (a.kind == ActionKind::kStartSend) {
      channels_[{a.edge, a.direction, event.rank, a.peer}].events.push_back(index);
      left_s -= link_between(cluster_, device_of(event.rank), device_of(a.peer)).latency_s;
    } else if (a.kind == ActionKind::kStartReduce) {
      shares_[{event.rank, a.bucket}].events.push_back(index);
      links_.reductions[event.rank.index()].push_back(index);
    }
    links_.left_s.push_back(left_s);
  }

  DeviceId device_of(RankId rank) const { return lowered_.ranks[rank.index()].device; }

  void walk(RankId rank) {
    std::size_t computed = 0;
    int last = -1;
    for (ActionCursor cursor(lowered_, plan_, rank); !cursor.done(); cursor.next()) {
      const Action& a = cursor.action();
      if (is_compute(a.kind)) {
        last = computes_[rank.index()].at(computed++);
        links_.step_of[at(last)] = static_cast<int>(links_.steps[rank.index()].size());
        links_.steps[rank.index()].push_back({a.kind, last});
      } else {
        follow(rank, a, last);
      }
    }
  }

  void follow(RankId rank, const Action& a, int last) {
    auto& steps = links_.steps[rank.index()];
    switch (a.kind) {
      case ActionKind::kPostReceive: {
        Channel& channel = channels_.at({a.edge, a.direction, a.peer, rank});
        links_.posted_after[at(channel.events.at(channel.posted++))] = last;
        return;
      }
      case ActionKind::kWaitReceive: {
        Channel& channel = channels_.at({a.edge, a.direction, a.peer, rank});
        steps.push_back({a.kind, channel.events.at(channel.received++)});
        return;
      }
      case ActionKind::kStartSend: {
        Channel& channel = channels_.at({a.edge, a.direction, rank, a.peer});
        links_.producer[at(channel.events.at(channel.sent++))] = last;
        return;
      }
      case ActionKind::kWaitSend: {
        Channel& channel = channels_.at({a.edge, a.direction, rank, a.peer});
        steps.push_back({a.kind, channel.events.at(channel.left++)});
        return;
      }
      case ActionKind::kStartReduce: {
        Share& share = shares_.at({rank, a.bucket});
        links_.producer[at(share.events.at(share.started++))] = last;
        return;
      }
      case ActionKind::kWaitReduce: {
        Share& share = shares_.at({rank, a.bucket});
        steps.push_back({a.kind, share.events.at(share.waited++)});
        return;
      }
      default:
        return;
    }
  }

  void join(const ShareKey& key, const std::vector<int>& events) {
    const auto& [rank, bucket] = key;
    for (const RankId other : lowered_.buckets[at(bucket)].ranks) {
      if (other == rank) continue;
      const std::vector<int>& others = shares_.at({other, bucket}).events;
      for (std::size_t i = 0; i < events.size(); ++i) {
        links_.together[at(events[i])].push_back(others.at(i));
      }
    }
  }

  const Trace& trace_;
  const Schedule& lowered_;
  const Plan& plan_;
  const Cluster& cluster_;
  std::vector<std::vector<int>> computes_;  // [rank]
  std::map<ChannelKey, Channel> channels_;
  std::map<ShareKey, Share> shares_;
  TraceLinks links_;
};

}  // namespace

TraceLinks link_trace(const Trace& trace, const Schedule& lowered, const Plan& plan,
                      const Cluster& cluster) {
  GP_CHECK(lowered.lowered, "only lowered schedules say what waits for what");
  return Linker(trace, lowered, plan, cluster).link();
}

}  // namespace graphpipe
