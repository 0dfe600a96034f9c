// The experiment of `wmtp-host weigh`: the weighting of a file for the model and the validation data of a run, in one
// process that trains nothing.
#pragma once

#include "job/engine_requests.hpp"
#include "job/job_request.hpp"

namespace wmtp {

/// The job of one of the request's files. Its model has the weights of the request, and trains no parameter. Throws the
/// errors of load_experiment; Error(usage) if the pipeline is an objective, or the experiment has no validation data.
Job weighing_job(const WeighRequest& request, size_t file, const Catalog& catalog, SourceTexts& texts);

}  // namespace wmtp
