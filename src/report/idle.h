// Why a rank idles, and which chain of work sets the iteration's time.

#pragma once

#include <string_view>
#include <vector>

#include "report/trace_links.h"
#include "schedule/trace.h"

namespace graphpipe {

enum class IdleReason {
  kProducer,   // a message's sender has not computed it yet
  kQueue,      // the message is ready, and its link carries others
  kTransfer,   // the message is on its way
  kSend,       // a message of this rank has not left: its buffer is in use
  kHolders,    // other ranks have not got to the reduction
  kReduction,  // gradients are being summed
  kCore,       // ranks that share this one's cores have them
  kDone,       // it has nothing left to do
};
// "waits for the sender", ...: for people.
std::string_view idle_reason_text(IdleReason reason);

struct IdleSpan {
  RankId rank = {};
  double start_s = 0;
  double end_s = 0;
  IdleReason reason = IdleReason::kDone;
  // The message or reduction waited for, and the task that holds it up (kProducer, kQueue: its
  // producer; kHolders: the last other rank's); indices into Trace::events, -1: none.
  int event = -1;
  int task = -1;
};

// By rank, then by start. With a rank's computes they cover the iteration without overlap (I1).
std::vector<IdleSpan> idle_spans(const Trace& trace, const TraceLinks& links);

struct PathStep {
  enum class Kind { kTask, kMessage, kReduction, kWait };
  Kind kind = Kind::kTask;
  int event = -1;  // of a wait: what waits (a message for its link, a task for a core)
  double start_s = 0;
  double end_s = 0;
};

// The steps of which each began as the one before ended, from the iteration's start to its end
// (K1): shorten none of them and the iteration is no shorter. What ends at the same time: tasks
// of the same rank go first.
std::vector<PathStep> critical_path(const Trace& trace, const TraceLinks& links);

}  // namespace graphpipe
