// wmtp-engine: the program that links LibTorch. wmtp-host starts it (job/engine_process.hpp,
// plugins/probe.hpp) with one of these commands:
//
//   run REQUEST            one rank of a job (job/job_request.hpp), defined by the environment
//   forks                  forks for each rank of our launcher, with `run REQUEST` (process/fork_server.hpp)
//   prepare REQUEST        the tokenizer and token files of an experiment
//   plan FOLDER…           answers requests about steps of experiments (plan/torch/serve_plans.hpp)
//   describe FILE, check SETTINGS, try QUESTION
//                          requests about a plugin; the answer is JSON on stdout
//   about, generate, answer, perplexity, weigh, merge, complete  REQUEST ANSWER
//                          the request is read from one file, the answer is written to another, both CBOR
#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/prctl.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <system_error>

#include "base/environment.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/stop_signals.hpp"
#include "base/system_limits.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "comm/placement.hpp"
#include "comm/refusal.hpp"
#include "comm/torch/cuda_backend.hpp"
#include "data/torch/prepare.hpp"
#include "doctor/torch/device_check.hpp"
#include "inference/model_requests.hpp"
#include "job/engine_process.hpp"
#include "job/engine_requests.hpp"
#include "job/job_request.hpp"
#include "job/weighing_job.hpp"
#include "log/run_folders.hpp"
#include "memory/allocator.hpp"
#include "memory/caught_error.hpp"
#include "model/torch/kernels/rows.hpp"
#include "model/torch/product_path.hpp"
#include "plan/torch/serve_plans.hpp"
#include "plugins/catalog.hpp"
#include "plugins/torch/check/try_plugin.hpp"
#include "plugins/torch/describe.hpp"
#include "plugins/torch/serve_probe.hpp"
#include "plugins/torch/signals.hpp"
#include "plugins/trials.hpp"
#include "process/fork_server.hpp"
#include "train/run_experiment.hpp"
#include "train/session.hpp"
#include "train/stop_handler.hpp"
#include "train/weighing.hpp"

namespace wmtp {
namespace {

Job job_of(const JobRequest& request) {
  configure_log({request.quiet, !request.no_color});
  if (request.quiet) hide_progress();
  SourceTexts texts(request.sources);
  return make_job(request, Catalog(request.plugin_folders), texts);
}

/// Prints the error unless another rank prints it; returns its exit code. `first`: no other rank has reported the same
/// error. Under a foreign launcher every rank prints, because each may have its own log. `peers`: null before they met.
int report(const Error& error, const RankEnvironment& environment, bool first, const Peers* peers) {
  std::cout.flush();
  const int reporter = peers && peers->lost_rank0() ? 1 : 0;
  const bool prints = first && (error.status() != ExitStatus::peer || environment.rank == reporter);
  if (prints || !environment.own_launcher) std::cerr << "wmtp-host: " << error.what() << std::endl;
  return int(error.status());
}

/// Ends the process without waiting for collectives that may never finish, and without LibTorch's destructors, which
/// take a quarter of the time of a short command.
[[noreturn]] void leave(int status) {
  std::cout.flush();
  std::fflush(nullptr);
  _exit(status);
}

/// This process's rank, for leave_with().
const RankEnvironment* own_rank = nullptr;
Peers* own_peers = nullptr;

/// Ends the process of a thread that cannot report the error to its caller.
[[noreturn]] void leave_with(const Error& error) {
  if (own_rank && own_peers) leave(report(error, *own_rank, own_peers->post_fault(error), own_peers));
  log_failure(error.what());
  leave(int(error.status()));
}

/// The terminate handler, for threads of libraries. One of ProcessGroupNCCL throws if a collective on the device does
/// not complete within the timeout; the training thread is then blocked by the device and cannot report it.
[[noreturn]] void end_after_uncaught_exception() {
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const c10::DistBackendError& failure) {
    const std::string text = failure.what_without_backtrace();
    const std::string work = text.substr(std::min(text.find("WorkNCCL("), text.size()));  // which one, and its duration
    if (own_peers) leave_with(own_peers->explain("a collective on the device", work.empty() ? text : work));
  } catch (const std::system_error&) {
    leave_with(*caught_system_error());
  } catch (...) {
  }
  std::abort();
}

/// Whether a function of OpenMP's library has called the current one.
bool is_called_by_openmp() {
  std::array<void*, 64> addresses;
  const int count = backtrace(addresses.data(), int(addresses.size()));
  return std::any_of(addresses.begin(), addresses.begin() + count, [](void* address) {
    Dl_info found{};
    if (dladdr(address, &found) == 0 || !found.dli_fname) return false;
    const std::string library = std::filesystem::path(found.dli_fname).filename();
    return library.starts_with("libgomp") || library.starts_with("libomp") || library.starts_with("libiomp");
  });
}

/// An exit handler. libgomp calls exit(1) if it cannot start a thread, after a message of its own. By now other threads
/// may have ended.
void explain_lack_of_threads(int status, void*) {
  if (status != EXIT_FAILURE || !is_called_by_openmp()) return;
  for (const char* name : {"OMP_STACKSIZE", "GOMP_STACKSIZE", "GOMP_CPU_AFFINITY", "OMP_PLACES"})
    if (const std::string value = environment_value(name); !value.empty())
      leave_with(Error(ExitStatus::storage, "OpenMP cannot start its threads; environment: " + std::string(name) +
                                                " is " + printable(value) + ", change or unset it"));
  leave_with(with_limit_named(
      Error(ExitStatus::storage, "OpenMP cannot start its threads: " + std::generic_category().message(EAGAIN))));
}

/// What a rank opens: connections and the store's (rank 0 holds 16 descriptors and 4 for each rank), and files
/// meanwhile.
int descriptors_of_rank(int world_size) { return 12 + 5 * world_size; }

/// Runs the job on this rank and ends the process. An error is printed and posted to the other ranks.
[[noreturn]] void run_rank(const Job& job, const RankEnvironment& environment) {
  std::unique_ptr<Peers> peers;
  std::unique_ptr<Session> session;
  if (environment.rank != 0) hide_progress();
  try {
    install_stop_handler();
    std::signal(SIGPIPE, SIG_IGN);  // Gloo's write to a lost rank then returns an error, which we report
    install_allocator();
    if (environment.world_size > 1) check_descriptors(descriptors_of_rank(environment.world_size));
    {
      const ImmediateStopScope meeting(/*says=*/!environment.is_watched);
      peers = std::make_unique<Peers>(environment, peer_timeout(job.experiment));
    }
    own_rank = &environment;
    own_peers = peers.get();
    session = std::make_unique<Session>(job, environment, *peers);
    const ExitStatus status = run_with_stages(*session, job.experiment);
    peers->wait_for_all();
    session.reset();
    peers.reset();
    leave(status == ExitStatus::done && environment.is_watched ? finished_exit_code : int(status));
  } catch (...) {
    const Error error = caught_error();
    const bool first = !peers || peers->post_fault(error);
    leave(report(error, environment, first, peers.get()));
  }
}

int run(const std::string& text) {
  const JobRequest request = job_request_from(text);
  const auto environment = rank_environment();
  if (!environment)
    throw Error(ExitStatus::usage, "a rank reads its place in the job from the environment, and RANK is not set");
  try {
    prctl(PR_SET_NAME, ("wmtp rank " + std::to_string(environment->rank)).c_str());  // for top, ps and debuggers
    Job job = job_of(request);
    if (!environment->own_launcher)
      adopt_world_size(request, environment->world_size, environment->launcher, job.experiment);
    check_interface(*environment);
    run_rank(job, *environment);
  } catch (const Error& error) {
    publish_refusal(*environment, error);
    throw;
  }
}

int prepare(const std::string& text) {
  const JobRequest request = job_request_from(text);
  const Job job = job_of(request);
  const std::vector<std::string> reads = pipeline_needs(job.experiment, Catalog(request.plugin_folders)).reads;
  prepare_data(
      job.experiment, cache_folder_path(job.database), [](const std::string& line) { log_info(line); },
      /*weights=*/std::ranges::count(reads, to_text(Signal::data_weight)) > 0);
  return 0;
}

std::string serve_plugin_trials(const std::string& handler) {
  return serve_trials(handler, [](const std::string& trial_request) { return serve_probe(trial_request, try_plugin); });
}

const std::map<std::string, std::function<std::string(const std::string&)>> probes{
    {"describe", describe_plugin_file},
    {"check", check_plugin_options},
    {"try", serve_plugin_trials},
};

std::string cuda_info() {
  const std::string built = has_cuda_library() ? "built" : "not built";
  if (!has_cuda_device()) return "no device on this machine; runs use the CPU. The CUDA backend is " + built;
  try {
    return std::to_string(cuda_backend().num_devices()) + " devices";
  } catch (const Error& error) {
    return error.what();
  }
}

/// The answer of engine_info(). Loads the CUDA backend where the machine has a device.
Json report_engine_info(const Json&) {
  return {{"libtorch", TORCH_VERSION},
          {"cpu", at::get_cpu_capability()},
          {"kernels", kernels::name(kernels::best_isa())},
          {"bf16", bf16_info()},
          {"cuda", cuda_info()}};
}

Json generated(const GenerateRequest& request) {
  return generate(request, [&](const std::string& part) {
    if (request.streams) std::cout << part << std::flush;
  });
}

Json weighed(const WeighRequest& request) {
  const Catalog catalog(request.plugin_folders);
  SourceTexts texts;
  std::vector<WeighedTokens> all;
  for (size_t file = 0; file < request.files.size(); ++file) {
    const Job job = weighing_job(request, file, catalog, texts);
    Peers peers(RankEnvironment{}, peer_timeout(job.experiment));
    Session session(job, RankEnvironment{}, peers);
    all.push_back(weigh_tokens(session, request));
  }
  return all;
}

Json merged(const MergeRequest& request) {
  merge_adapter(request);
  return nullptr;
}

Json completed(const CompleteRequest& request) {
  complete_checkpoint(request);
  return nullptr;
}

const std::map<std::string, std::function<Json(const Json&)>> requests{
    {"about", report_engine_info},
    {"generate", [](const Json& request) { return generated(request); }},
    {"answer", [](const Json& request) { return Json(write_answers(request)); }},
    {"perplexity", [](const Json& request) { return Json(head_losses(request)); }},
    {"weigh", [](const Json& request) { return weighed(request); }},
    {"check_device", [](const Json&) { return Json(check_device()); }},
    {"merge", [](const Json& request) { return merged(request); }},
    {"complete", [](const Json& request) { return completed(request); }},
};

Json reply_to(const std::function<Json(const Json&)>& handler, const std::string& file) {
  try {
    std::ifstream in(file, std::ios::binary);
    const Json envelope = Json::from_cbor(in);
    configure_log({envelope.at("quiet").get<bool>(), envelope.at("color").get<bool>()});
    if (envelope.at("hide_progress").get<bool>()) hide_progress();
    share_cores(1);
    return {{"result", handler(envelope.at("request"))}};
  } catch (...) {
    const Error error = caught_error();
    return {{"error", error.what()}, {"status", error.status()}};
  }
}

int serve_request(const std::function<Json(const Json&)>& handler, const std::string& request,
                  const std::string& reply_file) {
  const std::vector<uint8_t> bytes = Json::to_cbor(reply_to(handler, request));
  std::ofstream out(reply_file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  out.close();
  return out ? 0 : int(ExitStatus::storage);
}

int command(const std::string& name, const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && name == "run") return run(arguments[0]);
  if (arguments.empty() && name == "forks") {
    const auto of_rank = serve_forks();
    return of_rank ? command(of_rank->at(0), {of_rank->begin() + 1, of_rank->end()}) : 0;
  }
  if (arguments.size() == 1 && name == "prepare") return prepare(arguments[0]);
  if (name == "plan") {
    serve_plans({arguments.begin(), arguments.end()});
    return 0;
  }
  if (const auto probe = probes.find(name); arguments.size() == 1 && probe != probes.end())
    return serve_probe(arguments[0], probe->second);
  if (const auto handler = requests.find(name); arguments.size() == 2 && handler != requests.end())
    return serve_request(handler->second, arguments[0], arguments[1]);
  throw Error(ExitStatus::usage, "only wmtp-host starts wmtp-engine; see `wmtp-host --help`");
}

int run_command(const std::vector<std::string>& arguments) {
  try {
    check_stack_limit();
    return arguments.empty() ? command("", {}) : command(arguments[0], {arguments.begin() + 1, arguments.end()});
  } catch (...) {
    const Error error = caught_error();
    log_failure(error.what());
    return int(error.status());
  }
}

}  // namespace
}  // namespace wmtp

int main(int argc, char** argv) {
  wmtp::open_missing_streams();
  wmtp::unblock_signals();
  std::set_terminate(wmtp::end_after_uncaught_exception);
  on_exit(wmtp::explain_lack_of_threads, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // write() beyond RLIMIT_FSIZE then returns an error, which we report
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);  // we report lost ranks ourselves, without a stack trace
  c10::initLogging();
  wmtp::leave(wmtp::run_command({argv + 1, argv + argc}));
}
