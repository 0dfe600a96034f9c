// The only place that loads libwmtp_engine.so, and with it LibTorch: in a rank, in `data prepare`, in the probe child.
// It is never closed: tensors and threads of LibTorch live to the end of the process.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "base/error.hpp"
#include "core/job/engine_abi.hpp"
#include "core/job/job.hpp"
#include "core/rendezvous/rank_environment.hpp"

namespace wmtp {
namespace {

constexpr const char* engine_name = "libwmtp_engine.so";

/// Beside the library that holds this function, else ../lib from the program.
std::filesystem::path engine_file() {
  std::vector<std::filesystem::path> folders;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&engine_file), &here) != 0 && here.dli_fname) {
    folders.push_back(std::filesystem::absolute(here.dli_fname).parent_path());
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(program.parent_path().parent_path() / "lib");
  std::string places;
  for (const auto& folder : folders) {
    if (std::filesystem::exists(folder / engine_name)) return folder / engine_name;
    places += "\n  " + (folder / engine_name).string();
  }
  throw Error(ExitStatus::bug, std::string("the engine ") + engine_name + " is missing; looked for" + places +
                                   "\nbuild it with `make build`, which needs LibTorch (`make setup` installs it)");
}

void* engine() {
  static void* const handle = [] {
    check_thread_count();
    const auto file = engine_file();
    setenv("TORCH_CPP_LOG_LEVEL", "ERROR", /*overwrite=*/0);  // a lost peer is told by us, without LibTorch's stack
    void* const opened = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
      throw Error(ExitStatus::bug, "the engine " + file.string() + " cannot be loaded: " + dlerror() +
                                       "\nbuild it again with `make build`");
    }
    return opened;
  }();
  return handle;
}

template <class Function>
Function* engine_function(const char* name) {
  void* const found = dlsym(engine(), name);
  if (!found) {
    throw Error(ExitStatus::bug, std::string(engine_name) + " has no " + name +
                                     ": it is of another version than this program; build both with `make build`");
  }
  return reinterpret_cast<Function*>(found);
}

template <class Function>
std::string ask_engine(const char* name, const std::string& question) {
  std::string text;
  const auto status = static_cast<ExitStatus>(engine_function<Function>(name)(question.c_str(), &text));
  if (status != ExitStatus::done) throw Error(ExitStatus::plugin, text);
  return text;
}

/// The last wall: what comes through here has no one left who could tell it.
template <class Call>
int exit_code_of(const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.status());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "internal error: %s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "internal error: the engine threw something that is no std::exception\n");
  }
  return static_cast<int>(ExitStatus::bug);
}

}  // namespace

int run_rank(const Job& job, const RankEnvironment& environment) {
  return exit_code_of(
      [&] { return engine_function<decltype(wmtp_engine_run)>("wmtp_engine_run")(&job, &environment); });
}

int run_prepare(const Job& job) {
  return exit_code_of([&] { return engine_function<decltype(wmtp_engine_prepare)>("wmtp_engine_prepare")(&job); });
}

std::string about_engine_of_this_build() { return ask_engine<decltype(wmtp_engine_about)>("wmtp_engine_about", ""); }

std::string describe_with_engine(const std::string& plugin_file) {
  return ask_engine<decltype(wmtp_engine_describe)>("wmtp_engine_describe", plugin_file);
}

std::string check_with_engine(const std::string& settings) {
  return ask_engine<decltype(wmtp_engine_check)>("wmtp_engine_check", settings);
}

std::string layouts_with_engine(const std::string& questions) {
  return ask_engine<decltype(wmtp_engine_layouts)>("wmtp_engine_layouts", questions);
}

std::string try_with_engine(const std::string& question) {
  return ask_engine<decltype(wmtp_engine_try)>("wmtp_engine_try", question);
}

Generated generate_with_engine(const GenerateRequest& request) {
  Generated result;
  std::string error;
  const int status = engine_function<decltype(wmtp_engine_generate)>("wmtp_engine_generate")(&request, &result, &error);
  if (status != 0) throw Error(static_cast<ExitStatus>(status), error);
  return result;
}

void answer_with_engine(const AnswerRequest& request) {
  std::string error;
  const int status = engine_function<decltype(wmtp_engine_answer)>("wmtp_engine_answer")(&request, &error);
  if (status != 0) throw Error(static_cast<ExitStatus>(status), error);
}

void merge_with_engine(const MergeRequest& request) {
  std::string error;
  const int status = engine_function<decltype(wmtp_engine_merge)>("wmtp_engine_merge")(&request, &error);
  if (status != 0) throw Error(static_cast<ExitStatus>(status), error);
}

std::vector<HeadLoss> perplexity_with_engine(const PerplexityRequest& request) {
  std::vector<HeadLoss> heads;
  std::string error;
  const int status =
      engine_function<decltype(wmtp_engine_perplexity)>("wmtp_engine_perplexity")(&request, &heads, &error);
  if (status != 0) throw Error(static_cast<ExitStatus>(status), error);
  return heads;
}

}  // namespace wmtp
