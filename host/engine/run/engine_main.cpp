#include "engine/run/engine_main.hpp"

#include <c10/util/Logging.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/log.hpp"
#include "base/work_progress.hpp"
#include "core/job/engine_requests.hpp"
#include "core/job/job_request.hpp"
#include "core/rendezvous/refusal.hpp"
#include "engine/inference/generate.hpp"
#include "engine/inference/merge.hpp"
#include "engine/inference/perplexity.hpp"
#include "engine/memory/caught_error.hpp"
#include "engine/plugin_check/try_plugin.hpp"
#include "engine/plugin_runtime/describe.hpp"
#include "engine/prepare/prepare.hpp"
#include "engine/run/about_engine.hpp"
#include "engine/run/answer_probe.hpp"
#include "engine/run/describe_layout.hpp"
#include "engine/run/rank.hpp"

namespace wmtp {
namespace {

using nlohmann::json;

Job job_of(const JobRequest& request) {
  configure_log({request.quiet, !request.no_color});
  if (request.quiet) hide_progress();
  SourceTexts texts(request.sources);
  return make_job(request, Catalog(request.plugin_folders), texts);
}

int run(const std::string& text) {
  const JobRequest request = job_request_from(text);
  const auto environment = rank_environment();
  if (!environment) throw Error(ExitStatus::usage, "a rank is described by its environment, and RANK is not set");
  try {
    Job job = job_of(request);
    if (!environment->own_launcher) adopt_world_size(request, environment->world_size, job.experiment);
    run_rank(job, *environment);
  } catch (const Error& error) {
    tell_refusal(*environment, error);
    throw;
  }
}

int prepare(const std::string& text) {
  const Job job = job_of(job_request_from(text));
  prepare_data(job.experiment, job.database.parent_path() / "cache", [](const std::string& line) { log_info(line); });
  return 0;
}

const std::map<std::string, std::function<std::string(const std::string&)>> probes{
    {"describe", describe_plugin_file},
    {"check", check_plugin_options},
    {"layouts", describe_layouts},
    {"try", try_plugin},
};

json generated(const GenerateRequest& request) {
  return generate(request, [&](const std::string& part) {
    if (request.streams) std::cout << part << std::flush;
  });
}

json merged(const MergeRequest& request) {
  merge_adapter(request);
  return nullptr;
}

const std::map<std::string, std::function<json(const json&)>> questions{
    {"about", [](const json&) { return json(about_engine()); }},
    {"generate", [](const json& request) { return generated(request); }},
    {"answer", [](const json& request) { return to_json(write_answers(request)); }},
    {"perplexity", [](const json& request) { return json(losses_of_heads(request)); }},
    {"merge", [](const json& request) { return merged(request); }},
};

json answer_to(const std::function<json(const json&)>& question, const std::string& file) {
  try {
    std::ifstream in(file, std::ios::binary);
    const json envelope = json::from_cbor(in);
    configure_log({envelope.at("quiet").get<bool>(), envelope.at("color").get<bool>()});
    if (envelope.at("hide_progress").get<bool>()) hide_progress();
    return {{"result", question(envelope.at("request"))}};
  } catch (...) {
    const Error error = caught_error();
    return {{"error", error.what()}, {"status", error.status()}};
  }
}

int ask(const std::function<json(const json&)>& question, const std::string& request, const std::string& answer_file) {
  const std::vector<uint8_t> bytes = json::to_cbor(answer_to(question, request));
  std::ofstream out(answer_file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  out.close();
  return out ? 0 : int(ExitStatus::storage);
}

int command(const std::string& name, const std::vector<std::string>& arguments) {
  if (arguments.size() == 1 && name == "run") return run(arguments[0]);
  if (arguments.size() == 1 && name == "prepare") return prepare(arguments[0]);
  if (const auto probe = probes.find(name); arguments.size() == 1 && probe != probes.end())
    return answer_probe(arguments[0], probe->second);
  if (const auto question = questions.find(name); arguments.size() == 2 && question != questions.end())
    return ask(question->second, arguments[0], arguments[1]);
  throw Error(ExitStatus::usage, "wmtp-engine is started by wmtp-host; see `wmtp-host --help`");
}

}  // namespace

int engine_main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond RLIMIT_FSIZE is then an error of write(), which is reported
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);  // we report a lost peer, without LibTorch's stack
  c10::initLogging();
  try {
    return command(argc > 1 ? argv[1] : "", {argv + std::min(argc, 2), argv + argc});
  } catch (...) {
    const Error error = caught_error();
    log_failure(error.what());
    return int(error.status());
  }
}

}  // namespace wmtp
