// wmtp-engine, the program that links LibTorch, started as a child process or in place of this one.
//
// Requests and answers are files; its stdout and stderr are ours. It is killed when this process ends.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/job/engine_requests.hpp"
#include "core/job/job_request.hpp"

namespace wmtp {

/// Of a rank of our own launcher that has finished; under other launchers it is 0.
inline constexpr int finished_exit_code = 100;

/// Replaces this process by a rank of the job. [under a foreign launcher] Throws Error(bug) when it cannot.
[[noreturn]] void become_rank(const JobRequest& request);

/// `data prepare`: tokenizer and token files of the experiment. Returns the exit code; the engine has printed the
/// error.
int prepare_with_engine(const JobRequest& request);

/// {"libtorch": version, "cpu": instruction set of LibTorch's kernels, "bf16": "native" or "computed in fp32",
/// "cuda": the devices, or why there are none}.
nlohmann::json about_engine_of_this_build();

// Each throws the engine's error with its status; Error(bug) when the engine is missing or ends without an answer.
/// Error(usage) where the prompt does not suit the model, Error(data) where the model cannot be used.
Generated generate_with_engine(const GenerateRequest& request);
/// Error(data) where the model cannot be used, or names no tokenizer.
Answers answer_with_engine(const AnswerRequest& request);
/// One for each head, the first one first. Errors as losses_of_heads in engine/inference/model_requests.hpp.
std::vector<HeadLoss> perplexity_with_engine(const PerplexityRequest& request);
/// Error(usage) without a usable CUDA device.
std::vector<DeviceCheck> check_device_with_engine();
/// Errors as merge_adapter in engine/inference/model_requests.hpp.
void merge_with_engine(const MergeRequest& request);

}  // namespace wmtp
