#include "job/engine_process.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>

#include "base/error.hpp"
#include "base/installation.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/work_progress.hpp"
#include "comm/rank_environment.hpp"
#include "io/scratch_folder.hpp"
#include "plugins/libtorch.hpp"
#include "process/child_process.hpp"

namespace wmtp {
namespace {

ChildRequest engine_request(const std::vector<std::string>& arguments) {
  std::error_code failure;
  if (std::filesystem::current_path(failure).empty())  // LibTorch's libraries end a process without one
    throw Error(ExitStatus::storage,
                "the working folder is gone or cannot be read: " + failure.message() + "; change to another folder");
  ChildRequest request;
  request.program = engine_program();
  request.arguments = arguments;
  request.environment = environment_entries(engine_environment());
  return request;
}

/// Runs the engine; returns the status of waitpid().
int run_to_its_end(const std::vector<std::string>& arguments) {
  check_thread_count();
  ChildRequest request = engine_request(arguments);
  request.inherit_stdout = request.inherit_stderr = true;
  request.parent_death_signal = SIGTERM;  // removes its drafts
  return ChildProcess(request).wait();
}

/// Ends this program as it ends whoever writes to a pipe whose reader has gone.
void end_if_reader_has_gone(int status) {
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGPIPE) return;
  std::raise(SIGPIPE);
  throw Error(ExitStatus::storage, "cannot write to standard output; the reader of a pipe has gone");  // it is ignored
}

[[noreturn]] void throw_without_reply(int status) {
  end_if_reader_has_gone(status);
  throw Error(failure_status(status), "the engine " + exit_text(status, "before answering") +
                                          (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                               ? "; if the machine ran out of memory, use a smaller model"
                                               : ""));
}

Json request_from_engine(const std::string& command, const Json& request) {
  std::optional<ScratchFolder> folder(std::in_place);
  const std::filesystem::path file = folder->path() / "request", reply_file = folder->path() / "reply";
  const LogSettings log = log_settings();
  const std::vector<uint8_t> bytes = Json::to_cbor(
      {{"request", request}, {"quiet", log.quiet}, {"color", log.color}, {"hide_progress", progress_is_hidden()}});
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  out.close();
  if (!out) throw Error(ExitStatus::storage, "cannot write " + file.string() + ": " + std::strerror(errno));

  const int status = run_to_its_end({command, file.string(), reply_file.string()});
  std::ifstream in(reply_file, std::ios::binary);
  const Json reply = Json::from_cbor(in, /*strict=*/true, /*allow_exceptions=*/false);
  folder.reset();  // throw_without_reply may end this process
  if (reply.is_discarded()) throw_without_reply(status);
  if (reply.contains("error")) throw Error(reply.at("status").get<ExitStatus>(), reply.at("error"));
  return reply.at("result");
}

}  // namespace

std::shared_ptr<ForkServer> start_engine() { return std::make_shared<ForkServer>(engine_request({"forks"})); }

std::unique_ptr<SocketChild> start_step_planner(const std::vector<std::filesystem::path>& plugin_folders) {
  std::vector<std::string> arguments{"plan"};
  for (const auto& folder : plugin_folders) arguments.push_back(folder.string());
  return std::make_unique<SocketChild>(engine_request(arguments), /*has_stdout=*/true);
}

void become_rank(const JobRequest& request) {
  const std::string program = engine_program().string();
  std::vector<std::string> words = rank_arguments(request);
  words.insert(words.begin(), program);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  for (const auto& [name, value] : engine_environment()) setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  execv(program.c_str(), arguments.data());
  throw Error(ExitStatus::bug, "cannot run the engine " + program + ": " + std::strerror(errno));
}

int prepare_with_engine(const JobRequest& request) {
  const int status = run_to_its_end({"prepare", to_text(request)});
  if (!WIFEXITED(status) || was_not_loaded(status)) throw_without_reply(status);
  return WEXITSTATUS(status);
}

Json engine_info() { return request_from_engine("about", {}); }

Generated generate_with_engine(const GenerateRequest& request) { return request_from_engine("generate", request); }

Answers answer_with_engine(const AnswerRequest& request) { return request_from_engine("answer", request); }

std::vector<HeadLoss> perplexity_with_engine(const PerplexityRequest& request) {
  return request_from_engine("perplexity", request);
}

std::vector<WeighedTokens> weigh_with_engine(const WeighRequest& request) {
  return request_from_engine("weigh", request);
}

std::vector<DeviceCheck> check_device_with_engine() { return request_from_engine("check_device", nullptr); }

void merge_with_engine(const MergeRequest& request) { request_from_engine("merge", request); }

void complete_with_engine(const CompleteRequest& request) { request_from_engine("complete", request); }

}  // namespace wmtp
