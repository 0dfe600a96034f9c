// The engine's doors, and the rank boundary: nothing is thrown past them. A rank that fails tells its peers why, and
// ends without waiting for threads of collectives that may never finish.
#include <c10/util/Logging.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <iostream>

#include "base/log.hpp"
#include "base/work_progress.hpp"
#include "core/job/engine_abi.hpp"
#include "core/job/launcher.hpp"
#include "core/plugins/describe.hpp"
#include "engine/inference/generate.hpp"
#include "engine/inference/perplexity.hpp"
#include "engine/memory/allocator.hpp"
#include "engine/memory/caught_error.hpp"
#include "engine/plugin_check/try_plugin.hpp"
#include "engine/prepare/prepare.hpp"
#include "engine/run/about_engine.hpp"
#include "engine/run/describe_layout.hpp"
#include "engine/run/run_experiment.hpp"
#include "engine/train/stop_signal.hpp"

namespace wmtp {
namespace {

/// `first`: no other rank tells the same. Under a foreign launcher each rank may have a log of its own, so each tells.
int fail(const Error& error, const RankEnvironment& environment, bool first = true) {
  std::cout.flush();
  const bool ours = first && (error.status() != ExitStatus::peer || environment.rank == 0);
  if (ours || !environment.own_launcher) std::cerr << "wmtp-host: " << error.what() << std::endl;
  return int(error.status());
}

[[noreturn]] void leave(int status) {
  std::cout.flush();
  std::fflush(nullptr);
  _exit(status);
}

int answer(const std::function<std::string()>& ask, std::string* json_or_error) {
  try {
    *json_or_error = ask();
    return 0;
  } catch (...) {
    const Error error = caught_error();
    *json_or_error = error.what();
    return int(error.status());
  }
}

}  // namespace
}  // namespace wmtp

extern "C" int wmtp_engine_run(const wmtp::Job* job, const wmtp::RankEnvironment* environment) {
  using namespace wmtp;
  std::unique_ptr<Peers> peers;
  std::unique_ptr<Session> session;
  if (environment->rank != 0) hide_progress();
  c10::initLogging();  // heeds TORCH_CPP_LOG_LEVEL, which the engine's loader has set
  try {
    watch_signals();
    install_allocator();
    peers = std::make_unique<Peers>(*environment, timeout_of(job->experiment));
    session = std::make_unique<Session>(*job, *environment, *peers);
    const ExitStatus status = run_with_stages(*session, job->experiment);
    session.reset();
    peers.reset();
    leave(status == ExitStatus::done && environment->own_launcher ? finished_exit_code : int(status));
  } catch (...) {
    const Error error = caught_error();
    const bool first = !peers || peers->post_fault(error);
    leave(fail(error, *environment, first));
  }
}

extern "C" int wmtp_engine_prepare(const wmtp::Job* job) {
  using namespace wmtp;
  try {
    prepare_data(job->experiment, job->database.parent_path() / "cache",
                 [](const std::string& text) { log_info(text); });
    return 0;
  } catch (...) {
    return fail(caught_error(), {});
  }
}

extern "C" int wmtp_engine_describe(const char* plugin_file, std::string* json_or_error) {
  return wmtp::answer([&] { return wmtp::describe_plugin_file(plugin_file); }, json_or_error);
}

extern "C" int wmtp_engine_check(const char* settings, std::string* json_or_error) {
  return wmtp::answer([&] { return wmtp::check_plugin_options(settings); }, json_or_error);
}

extern "C" int wmtp_engine_about(const char*, std::string* json_or_error) {
  return wmtp::answer([] { return wmtp::about_engine(); }, json_or_error);
}

extern "C" int wmtp_engine_layouts(const char* questions, std::string* json_or_error) {
  return wmtp::answer([&] { return wmtp::describe_layouts(questions); }, json_or_error);
}

extern "C" int wmtp_engine_try(const char* question, std::string* json_or_error) {
  return wmtp::answer([&] { return wmtp::try_plugin(question); }, json_or_error);
}

extern "C" int wmtp_engine_answer(const wmtp::AnswerRequest* request, std::string* error) {
  const auto ask = [&]() -> std::string {
    wmtp::write_answers(*request);
    return {};
  };
  return wmtp::answer(ask, error);
}

extern "C" int wmtp_engine_merge(const wmtp::MergeRequest* request, std::string* error) {
  const auto ask = [&]() -> std::string {
    wmtp::merge_adapter(*request);
    return {};
  };
  return wmtp::answer(ask, error);
}

extern "C" int wmtp_engine_perplexity(const wmtp::PerplexityRequest* request, std::vector<wmtp::HeadLoss>* heads,
                                      std::string* error) {
  const auto ask = [&]() -> std::string {
    *heads = wmtp::losses_of_heads(*request);
    return {};
  };
  return wmtp::answer(ask, error);
}

extern "C" int wmtp_engine_generate(const wmtp::GenerateRequest* request, wmtp::Generated* result, std::string* error) {
  const auto ask = [&]() -> std::string {
    *result = wmtp::generate(*request);
    return {};
  };
  return wmtp::answer(ask, error);
}
