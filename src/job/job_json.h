// The file forms of a job and of a rank's fault, as text (docs/formats.md).

#pragma once

#include <string>
#include <string_view>

#include "job/fault.h"
#include "job/job.h"

namespace graphpipe {

// All but the folder. Throws InputError("FILE: /train/epochs", ...).
Job parse_job(std::string_view json, const std::string& file);
std::string to_json(const Job& job);  // parse_job(to_json(j)) equals j, but for the folder

WorkerFault parse_fault(std::string_view json, const std::string& file);
std::string to_json(const WorkerFault& fault);

}  // namespace graphpipe
