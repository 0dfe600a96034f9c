#include "engine/plan/serve_plans.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <iostream>
#include <optional>
#include <string>

#include "base/log.hpp"
#include "core/config/load.hpp"
#include "core/job/job_request.hpp"
#include "engine/memory/allocator.hpp"
#include "engine/memory/caught_error.hpp"
#include "engine/memory/meta_device.hpp"
#include "engine/plan/meta_rows.hpp"
#include "engine/plan/planned_step.hpp"
#include "engine/plan/stand_in.hpp"
#include "engine/plugin_runtime/loader.hpp"
#include "engine/run/session.hpp"

namespace wmtp {
namespace {

using nlohmann::json;

class Plans {
 public:
  Plans(std::filesystem::path file, const std::vector<std::filesystem::path>& plugin_folders)
      : file_(std::move(file)), catalog_(plugin_folders) {}

  json answer(const std::string& line) {
    try {
      const auto question = json::parse(line).get<StepQuestion>();
      if (!experiment_) experiment_ = load_experiment(load_request(catalog_, file_, {}));
      share_cores(int(question.ranks / question.hosts));
      install_meta_device(question.on_cuda ? at::kCUDA : at::kCPU);
      return {{"step", planned(question)}};
    } catch (...) {
      const Error error = caught_error();
      return {{"error", error.what()}, {"status", error.status()}};
    }
  }

 private:
  PlannedStep planned(const StepQuestion& question) {
    const OpenParts open = [this](const Experiment& experiment) { return parts_of(experiment); };
    try {
      if (!reads_values_) return plan_step_of_all_ranks(*experiment_, question, open);
    } catch (const Error& error) {
      if (error.status() != ExitStatus::plugin) throw;
      reads_values_ = true;
      log_warning(
          std::string("the plan leaves out what the pipeline itself allocates, because it reads values, which a "
                      "plan does not have: ") +
          error.what());
    }
    return plan_step_of_all_ranks(*experiment_, question, [&](const Experiment& experiment) {
      StepParts parts = open(experiment);
      return StepParts{stand_in(parts.pipeline), std::move(parts.adapter)};
    });
  }

  StepParts parts_of(const Experiment& experiment) const {
    std::optional<PluginSetting> inner;
    if (experiment.inner) inner = setting_of(catalog_, "pipeline", *experiment.inner);
    const PluginSetting adapter = setting_of(catalog_, "adapter", experiment.adapter);
    return {open_pipeline(setting_of(catalog_, "pipeline", experiment.pipeline), inner ? &*inner : nullptr, experiment),
            create_adapter(adapter.description, adapter.options)};
  }

  std::filesystem::path file_;
  Catalog catalog_;
  std::optional<Experiment> experiment_;
  bool reads_values_ = false;  ///< the pipeline
};

}  // namespace

void serve_plans(const std::filesystem::path& file, const std::vector<std::filesystem::path>& plugin_folders) {
  install_allocator();
  static MetaRows rows;
  kernels::set_device_rows(&rows);
  Plans plans(file, plugin_folders);
  for (std::string line; std::getline(std::cin, line);) {
    const std::string reply = plans.answer(line).dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    for (std::string_view rest = reply; !rest.empty();) {
      const ssize_t count = send(STDIN_FILENO, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (count < 0) return;
      rest.remove_prefix(size_t(count));
    }
  }
}

}  // namespace wmtp
