#include "cli/trace_file.h"

#include "base/error.h"
#include "base/file.h"
#include "report/measured_trace.h"
#include "schedule/build.h"
#include "schedule/lower.h"
#include "schedule/trace_json.h"
#include "sim/simulator.h"

namespace graphpipe {

void write_trace_with_prediction(const std::string& path, const std::string& measured,
                                 const LoadedPlan& loaded, double stretch) {
  const std::string text = read_file(measured);
  const Schedule programs =
      lower(build_schedule(loaded.plan, loaded.graph, schedule_samples(loaded.plan)), loaded.plan,
            loaded.graph);
  // Is it a trace of this plan?
  parse_measured_trace(text, measured, static_cast<int>(programs.ranks.size()),
                       static_cast<int>(loaded.plan.stages.size()));
  const Trace trace = simulate(programs, loaded.plan, loaded.graph, loaded.cluster, *loaded.costs,
                               {.events = true});
  const std::string predicted =
      to_chrome_trace(trace, programs, loaded.plan, predicted_processes(stretch));
  if (text.find(kPredicted) != std::string::npos) {
    throw InputError(measured, "holds a prediction already; give the trace of the run alone");
  }
  write_file(path, join_chrome_traces(text, predicted));
}

}  // namespace graphpipe
