// wmtp-engine, the program that links LibTorch, run as a child process or in place of this one.
//
// Requests and answers are files; the child inherits stdout and stderr. It is killed when this process ends.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "job/engine_requests.hpp"
#include "job/job_request.hpp"
#include "process/fork_server.hpp"
#include "process/socket_child.hpp"

namespace wmtp {

/// Exit code of a finished rank of our own launcher; under other launchers it is 0.
inline constexpr int finished_exit_code = 100;

/// A started engine, which loads LibTorch once and forks for each rank of our own launcher. Error(bug) if the engine is
/// missing.
std::shared_ptr<ForkServer> start_engine();

/// A started engine that answers questions about steps of experiments (plan/step_planner.hpp).
std::unique_ptr<SocketChild> start_step_planner(const std::vector<std::filesystem::path>& plugin_folders);

/// Replaces this process with a rank of the job. [under a foreign launcher] Error(bug) if that fails.
[[noreturn]] void become_rank(const JobRequest& request);

/// `data prepare`: prepares tokenizer and token files of the experiment. Returns the exit code; the engine has printed
/// any error.
int prepare_with_engine(const JobRequest& request);

/// {"libtorch": version, "cpu": instruction set of LibTorch's kernels, "kernels": of ours, "bf16": "native" or
/// "computed in fp32", "cuda": the devices, or why there are none}.
Json engine_info();

// Each throws the engine's error with its status; Error(bug) if the engine is missing or ends without an answer.
/// Error(usage) if the prompt does not suit the model, Error(data) if the model cannot be used.
Generated generate_with_engine(const GenerateRequest& request);
/// Error(data) if the model cannot be used or names no tokenizer.
Answers answer_with_engine(const AnswerRequest& request);
/// One per head, in order. Throws the errors of head_losses in inference/model_requests.hpp.
std::vector<HeadLoss> perplexity_with_engine(const PerplexityRequest& request);
/// One per file of the request, all with the same sequences. Throws the errors of load_experiment and of weigh_tokens
/// in train/weighing.hpp.
std::vector<WeighedTokens> weigh_with_engine(const WeighRequest& request);
/// Error(usage) without a usable CUDA device.
std::vector<DeviceCheck> check_device_with_engine();
/// Throws the errors of merge_adapter in inference/model_requests.hpp.
void merge_with_engine(const MergeRequest& request);
/// Throws the errors of complete_checkpoint in inference/model_requests.hpp.
void complete_with_engine(const CompleteRequest& request);

}  // namespace wmtp
