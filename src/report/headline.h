// One sentence on what a plan gains, and by what.

#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "report/text_report.h"

namespace graphpipe {

// "4", or "2-8" where stages differ.
std::string micro_batch_text(const Plan& plan);

// "graphpipe is 1.58x as fast as pipedream: depth 8 instead of 32; micro-batch 16 instead of 4;
// bubble 12.0 % instead of 31.0 %, at the cost of peak memory 3.00 GiB instead of 2.00 GiB". Only
// what differs is named. Requires: estimates of both.
std::string gain_text(const Plan& plan, const Plan& rival);

// The fastest of the plans against the best of the other planners, or of all of which it is not
// clearly the fastest: "pipedream and graphpipe are equally fast". "" where fewer than two are ok.
std::string headline(const std::vector<ComparedPlan>& plans);

}  // namespace graphpipe
